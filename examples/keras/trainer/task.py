"""Train a Keras model on a chief and its workers in step, with a loop that Keras 2 and Keras 3 both take.

``model.fit`` under MultiWorkerMirroredStrategy works with Keras 2 (TensorFlow up to 2.15, or ``tf_keras``) and fails
with Keras 3. Model, loss and optimizer here are Keras' own; only ``fit`` is replaced, by ``train``. docs/keras.md says
more. The chief writes ``<job dir>/model``, a SavedModel: pixels [n, 64] in, scores [n, 10] out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

PIXELS = 64
CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return (digits.data[chosen] / 16.0).astype(np.float32), digits.target[chosen].astype(np.int64)


def build(hidden: int) -> tf.keras.Model:
    """Build the model; its weights are there at once, as a loop of one's own needs them."""
    layers = [
        tf.keras.Input((PIXELS,)),
        tf.keras.layers.Dense(hidden, activation="relu"),
        tf.keras.layers.Dense(CLASSES),
    ]
    return tf.keras.Sequential(layers)


def train(args: argparse.Namespace, task: dict) -> tf.keras.Model:
    """Train with all replicas in step, and give the trained model."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    print(f"{task['type']} {task['index']}: one of {replicas} replicas", flush=True)
    tf.keras.utils.set_random_seed(7)
    with strategy.scope():
        model = build(args.hidden)
        optimizer = tf.keras.optimizers.Adam(args.learning_rate)
        # Variables cannot be made inside the step that all replicas run.
        optimizer.build(model.trainable_variables)
    entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    batch_size = args.batch_size * replicas

    def step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = entropy(labels, model(pixels, training=True))
            # Gradients are summed over the replicas, so each loss is a part of the mean over the whole batch.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def steps(batch: tuple) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=batch), axis=None)

    pictures = tf.data.Dataset.from_tensor_slices(data(test=False))
    pictures = pictures.shuffle(2000, seed=1).batch(batch_size, drop_remainder=True)
    batches = strategy.experimental_distribute_dataset(pictures)
    for epoch in range(args.epochs):
        losses = [float(steps(batch)) for batch in batches]
        print(f"epoch {epoch + 1:3d}  loss {np.mean(losses):.4f}", flush=True)
    return model


def finish(trained: tf.keras.Model, args: argparse.Namespace) -> None:
    """Write the model and check its quality; outside the strategy, since the workers take no part."""
    model = build(args.hidden)
    model.set_weights(trained.get_weights())
    if args.job_dir:
        tf.saved_model.save(model, f"{args.job_dir.rstrip('/')}/model")
        print(f"model written to {args.job_dir}", flush=True)
    pixels, labels = data(test=True)
    found = float(np.mean(np.argmax(model.predict(pixels, verbose=0), axis=1) == labels))
    print(f"test accuracy {found:.4f}", flush=True)
    if found < args.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="pictures a step on each replica")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.005)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    return parser.parse_args()


def main() -> None:
    """Do this replica's part."""
    args = arguments()
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task") or {"type": "chief", "index": 0}
    model = train(args, task)
    if task["type"] == "chief":
        finish(model, args)


if __name__ == "__main__":
    main()
