"""Train a network on one machine that tells malignant tumours from benign ones by 30 measurements.

Writes ``<job dir>/model``, a SavedModel: measurements [n, 30] in, log odds of "benign" [n, 1] out. Exits with 1 when
fewer of the tumours kept for testing are told right than asked for.
"""

from __future__ import annotations

import argparse
import os
import sys

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_breast_cancer

MEASUREMENTS = 30
#: Every fifth tumour is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Measurements [n, 30] and labels [n] (1: benign) of the training or the test part."""
    tumours = load_breast_cancer()
    chosen = (np.arange(len(tumours.target)) % TEST_EVERY == 0) == test
    return tumours.data[chosen].astype(np.float32), tumours.target[chosen].astype(np.float32)


def train(args: argparse.Namespace) -> float:
    """Train and save; the share of the test part that is told right, from 0 to 1."""
    tf.keras.utils.set_random_seed(7)
    measurements, labels = data(test=False)
    scale = tf.keras.layers.Normalization()
    scale.adapt(measurements)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((MEASUREMENTS,)),
            scale,
            tf.keras.layers.Dense(args.hidden, activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    accuracy = tf.keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
    model.compile(tf.keras.optimizers.Adam(args.learning_rate), loss, metrics=[accuracy])
    model.fit(measurements, labels, batch_size=args.batch_size, epochs=args.epochs, verbose=2)
    _, reached = model.evaluate(*data(test=True), verbose=0)
    if args.job_dir:
        tf.saved_model.save(model, f"{args.job_dir.rstrip('/')}/model")
        print(f"model written to {args.job_dir}", flush=True)
    return float(reached)


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    found = train(options)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < options.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {options.minimum_accuracy}")
