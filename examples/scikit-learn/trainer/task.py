"""Train a random forest that tells which of three growers a wine comes from, by 13 measurements.

Writes ``<job dir>/model.joblib``, a fitted scikit-learn pipeline, and ``<job dir>/quality.json``.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

#: Every fourth wine is kept for testing and never trained on.
TEST_EVERY = 4


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Measurements [n, 13] and growers [n] of the training or the test part."""
    wines = load_wine()
    chosen = (np.arange(len(wines.target)) % TEST_EVERY == 0) == test
    return wines.data[chosen], wines.target[chosen]


def train(args: argparse.Namespace) -> Pipeline:
    """The fitted pipeline."""
    model = make_pipeline(StandardScaler(), RandomForestClassifier(args.trees, random_state=7))
    folds = cross_val_score(model, *data(test=False), cv=3)
    print(f"accuracy by cross-validation {folds.mean():.4f}", flush=True)
    return model.fit(*data(test=False))


def save(job_dir: str, name: str, content: bytes) -> None:
    """Write a file of the job dir: a folder or Cloud Storage."""
    place = f"{job_dir.rstrip('/')}/{name}"
    if place.startswith("gs://"):
        from google.cloud import storage  # noqa: PLC0415 - a run on one's own machine does without

        bucket, _, blob = place[len("gs://") :].partition("/")
        storage.Client().bucket(bucket).blob(blob).upload_from_string(content)
    else:
        Path(job_dir).mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(content)
    print(f"written: {place}", flush=True)


def main() -> None:
    """Train, save, check the quality."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    args = parser.parse_args()
    model = train(args)
    found = float(model.score(*data(test=True)))
    print(f"test accuracy {found:.4f}", flush=True)
    if args.job_dir:
        content = io.BytesIO()
        joblib.dump(model, content)
        save(args.job_dir, "model.joblib", content.getvalue())
        save(args.job_dir, "quality.json", json.dumps({"accuracy": found}).encode())
    if found < args.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


if __name__ == "__main__":
    main()
