"""The network and its data: pictures of handwritten digits."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

PIXELS = 64
CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


class Network(tf.Module):
    """Two dense layers. Weights are float32: [64, hidden], [hidden], [hidden, 10], [10]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        start = np.random.default_rng(7)
        shapes = ([PIXELS, hidden], [hidden], [hidden, CLASSES], [CLASSES])
        self.weights = [
            tf.Variable(
                start.normal(0, (2 / shape[0]) ** 0.5, shape) if len(shape) > 1 else np.zeros(shape),
                dtype=tf.float32,
                # Gradients are summed before they are applied, so every replica writes the same value.
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
            for shape in shapes
        ]

    @tf.function(input_signature=[tf.TensorSpec([None, PIXELS], tf.float32)])
    def __call__(self, pixels: tf.Tensor) -> tf.Tensor:
        """Scores [n, 10] of pictures [n, 64] with values from 0 to 1."""
        first, first_bias, second, second_bias = self.weights
        return tf.nn.relu(pixels @ first + first_bias) @ second + second_bias


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return (digits.data[chosen] / 16.0).astype(np.float32), digits.target[chosen].astype(np.int64)


def accuracy(network: Network) -> float:
    """Share of the test pictures that are read right, from 0 to 1."""
    pixels, labels = data(test=True)
    return float(np.mean(np.argmax(network(pixels).numpy(), axis=1) == labels))
