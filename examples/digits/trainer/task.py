"""Train a digit classifier on every replica of the job, in step with each other.

Who the others are stands in TF_CONFIG, which the service sets; MultiWorkerMirroredStrategy reads it. Each replica sees
its own share of the data, gradients are summed over all of them after every step, and so all hold the same weights.
The chief writes the model to ``<job dir>/model`` as a SavedModel with one signature: pixels in, class scores out.
"""

from __future__ import annotations

import argparse
import json
import os

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

PIXELS = 64
CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


class Classifier(tf.Module):
    """Two dense layers. Weights are float32: [64, hidden], [hidden], [hidden, 10], [10]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        start = tf.random.Generator.from_seed(7)

        def weight(rows: int, columns: int) -> tf.Variable:
            return self._variable(start.normal([rows, columns]) * (2.0 / rows) ** 0.5)

        self.layers = [
            (weight(PIXELS, hidden), self._variable(tf.zeros([hidden]))),
            (weight(hidden, CLASSES), self._variable(tf.zeros([CLASSES]))),
        ]

    @staticmethod
    def _variable(value: tf.Tensor) -> tf.Variable:
        # Gradients are summed before they are applied, so every replica writes the same value.
        return tf.Variable(value, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def weights(self) -> list[tf.Variable]:
        """Every trainable variable, layer by layer."""
        return [variable for layer in self.layers for variable in layer]

    def __call__(self, pixels: tf.Tensor) -> tf.Tensor:
        """Scores [batch, 10] of pictures [batch, 64] with values from 0 to 1."""
        (first, first_bias), (second, second_bias) = self.layers
        return tf.nn.relu(pixels @ first + first_bias) @ second + second_bias


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return (digits.data[chosen] / 16.0).astype(np.float32), digits.target[chosen].astype(np.int64)


def train(args: argparse.Namespace) -> None:
    """Train, and write the model if this replica is the chief."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "chief", "index": 0})
    print(f"{task['type']} {task['index']}: one of {replicas} replicas", flush=True)

    with strategy.scope():
        model = Classifier(args.hidden)
        speeds = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in model.weights()]

    def share(context: tf.distribute.InputContext) -> tf.data.Dataset:
        pictures = tf.data.Dataset.from_tensor_slices(data(test=False))
        mine = pictures.shard(context.num_input_pipelines, context.input_pipeline_id)
        return mine.shuffle(2000, seed=1).repeat().batch(args.batch_size)

    batches = iter(strategy.distribute_datasets_from_function(share))

    def step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(pixels))
            loss = tf.reduce_mean(losses) / replicas
        gradients = tape.gradient(loss, model.weights())
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        for weight, speed, gradient in zip(model.weights(), speeds, total):
            speed.assign(args.momentum * speed + gradient)
            weight.assign_sub(args.learning_rate * speed)
        return loss

    @tf.function
    def epoch(iterator: tf.data.Iterator, steps: int) -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(steps):
            pixels, labels = next(iterator)
            losses = strategy.run(step, args=(pixels, labels))
            loss = strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
        return loss

    steps = len(data(test=False)[1]) // (args.batch_size * replicas)
    for number in range(1, args.epochs + 1):
        loss = epoch(batches, tf.constant(steps))
        if number % 5 == 0 or number == args.epochs:
            print(f"epoch {number:3d}  loss {float(loss):.4f}", flush=True)

    if task["type"] in {"chief", "master"} and args.job_dir:
        export(model, args.hidden, f"{args.job_dir.rstrip('/')}/model")
    wait_for_all(strategy)


def export(model: Classifier, hidden: int, path: str) -> None:
    """Write the trained weights as a SavedModel that knows nothing of the strategy."""
    alone = Classifier(hidden)
    for copy, weight in zip(alone.weights(), model.weights()):
        copy.assign(weight.numpy())
    serve = tf.function(alone.__call__, input_signature=[tf.TensorSpec([None, PIXELS], tf.float32)])
    tf.saved_model.save(alone, path, signatures={"serving_default": serve})
    print(f"model written to {path}", flush=True)


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Return when every replica has come here, so that none takes another's end for a crash."""

    @tf.function
    def meet() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    meet()


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32, help="pictures a step on each replica")
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
