"""The network and its data: tumours, malignant or benign, by 30 measurements of each."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_breast_cancer

MEASUREMENTS = 30
#: Every fifth tumour is kept for testing and never trained on.
TEST_EVERY = 5


class Network(tf.Module):
    """Two dense layers. Weights are float32: [30, hidden], [hidden], [hidden, 1], [1]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        start = np.random.default_rng(7)
        self.weights = [
            tf.Variable(start.normal(0, (2 / MEASUREMENTS) ** 0.5, [MEASUREMENTS, hidden]), dtype=tf.float32),
            tf.Variable(tf.zeros([hidden])),
            tf.Variable(start.normal(0, (2 / hidden) ** 0.5, [hidden, 1]), dtype=tf.float32),
            tf.Variable(tf.zeros([1])),
        ]

    @tf.function(input_signature=[tf.TensorSpec([None, MEASUREMENTS], tf.float32)])
    def __call__(self, measurements: tf.Tensor) -> tf.Tensor:
        """Log odds [n, 1] of "benign" from scaled measurements [n, 30]."""
        first, first_bias, second, second_bias = self.weights
        return tf.nn.relu(measurements @ first + first_bias) @ second + second_bias


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Measurements [n, 30], scaled by the training part, and labels [n, 1] (1: benign) of the training or test part."""
    tumours = load_breast_cancer()
    tests = np.arange(len(tumours.target)) % TEST_EVERY == 0
    known = tumours.data[~tests]
    scaled = (tumours.data - known.mean(axis=0)) / known.std(axis=0)
    chosen = tests == test
    return scaled[chosen].astype(np.float32), tumours.target[chosen, None].astype(np.float32)


def accuracy(network: Network) -> float:
    """Share of the test tumours that are told right, from 0 to 1."""
    measurements, labels = data(test=True)
    return float(np.mean((network(measurements).numpy() > 0) == labels))
