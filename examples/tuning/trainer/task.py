"""Train a network that reads handwritten digits, and report its accuracy after every epoch.

``--learning-rate``, ``--hidden`` and ``--batch-size`` are what the study tunes: each trial is one run of this file with
values of its own. The metric is the accuracy on pictures that are neither trained on nor kept for testing.
Writes ``<job dir>/<trial>/model.joblib``, a fitted scikit-learn classifier.
"""

from __future__ import annotations

import argparse
import io
import os
from pathlib import Path

import hypertune
import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

SIDE, CLASSES = 8, 10
#: Of five pictures one is kept for testing, and one tells how good a trial is.
PARTS = 5
TEST, VALIDATION = 0, 1
#: As the job file's hyperparameterMetricTag says it.
METRIC = "accuracy"


def data(part: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of a part; of None, those to train on."""
    digits = load_digits()
    parts = np.arange(len(digits.target)) % PARTS
    chosen = ~np.isin(parts, (TEST, VALIDATION)) if part is None else parts == part
    return digits.data[chosen] / 16.0, digits.target[chosen]


def shifted(pixels: np.ndarray) -> np.ndarray:
    """The pictures, and each moved by one pixel up, down, to the left and to the right: [5 n, 64]."""
    pictures = pixels.reshape(-1, SIDE, SIDE)
    moves = [np.roll(pictures, by, axis) for axis in (1, 2) for by in (1, -1)]
    return np.concatenate([pictures, *moves]).reshape(-1, SIDE * SIDE)


def train(args: argparse.Namespace) -> MLPClassifier:
    """The network after all epochs."""
    pixels, labels = data(None)
    if args.augment:
        pixels, labels = shifted(pixels), np.tile(labels, 5)
    model = MLPClassifier(
        hidden_layer_sizes=(args.hidden,),
        solver="sgd",
        learning_rate_init=args.learning_rate,
        batch_size=args.batch_size,
        random_state=7,
    )
    teller = hypertune.HyperTune()
    for epoch in range(1, args.epochs + 1):
        model.partial_fit(pixels, labels, classes=np.arange(CLASSES))
        accuracy = model.score(*data(VALIDATION))
        # Into a file that the service reads while the trial runs; it may stop a trial that has no hope.
        teller.report_hyperparameter_tuning_metric(METRIC, accuracy, global_step=epoch)
        if epoch % 10 == 0 or epoch == args.epochs:
            print(f"epoch {epoch:3d}  accuracy {accuracy:.4f}", flush=True)
    return model


def save(place: str, content: bytes) -> None:
    """Write a file of this machine or an object of Cloud Storage."""
    if place.startswith("gs://"):
        from google.cloud import storage  # noqa: PLC0415 - a run on one's own machine does without

        bucket, _, name = place[len("gs://") :].partition("/")
        storage.Client().bucket(bucket).blob(name).upload_from_string(content)
    else:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(content)
    print(f"written: {place}", flush=True)


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--augment", action="store_true", help="train on moved pictures as well")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    model = train(args)
    if args.job_dir:
        content = io.BytesIO()
        joblib.dump(model, content)
        # All trials have the same job dir: each writes below a name of its own.
        save(f"{args.job_dir.rstrip('/')}/{os.environ.get('CLOUD_ML_TRIAL_ID', '0')}/model.joblib", content.getvalue())


if __name__ == "__main__":
    main()
