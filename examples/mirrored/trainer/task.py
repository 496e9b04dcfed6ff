"""Train a digit classifier on all GPUs of one machine, in step with each other.

MirroredStrategy keeps a copy of the network on every GPU, splits each batch between them and sums their gradients.
Where TensorFlow sees no GPU, as many logical CPU devices as the job asked for GPUs stand for them, and the rest is the
same. Writes ``<job dir>/model``, a SavedModel: pictures [n, 8, 8, 1] in, class scores [n, 10] out.
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

CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [n, 8, 8, 1] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return (digits.images[chosen, :, :, None] / 16.0).astype(np.float32), digits.target[chosen].astype(np.int64)


def devices() -> list[str]:
    """This machine's GPUs; without any, a logical CPU device for each GPU that the job file asks for."""
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if gpus:
        return [gpu.name for gpu in gpus]
    job = json.loads(json.loads(os.environ.get("TF_CONFIG", "{}")).get("job", "{}"))
    count = int(job.get("master_config", {}).get("accelerator_config", {}).get("count", 1))
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return [device.name for device in tf.config.list_logical_devices("CPU")]


def train(args: argparse.Namespace) -> float:
    """Train and save; the share of the test part that is read right, from 0 to 1."""
    strategy = tf.distribute.MirroredStrategy(devices())
    print(f"{strategy.num_replicas_in_sync} replicas in sync on {strategy.extended.worker_devices}", flush=True)
    tf.keras.utils.set_random_seed(7)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((8, 8, 1)),
                tf.keras.layers.Conv2D(args.filters, 3, activation="relu"),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(CLASSES),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(args.learning_rate), loss, metrics=["accuracy"])
    model.fit(*data(test=False), batch_size=args.batch_size, epochs=args.epochs, verbose=2)
    _, reached = model.evaluate(*data(test=True), batch_size=args.batch_size, verbose=0)
    if args.job_dir:
        tf.saved_model.save(model, f"{args.job_dir.rstrip('/')}/model")
        print(f"model written to {args.job_dir}", flush=True)
    return float(reached)


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128, help="pictures a step, over all GPUs")
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    found = train(options)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < options.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {options.minimum_accuracy}")
