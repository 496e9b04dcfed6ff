"""Train boosted trees that read handwritten digits.

Writes ``<job dir>/model.json``, which every version of XGBoost reads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_digits

CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> xgboost.DMatrix:
    """Pixels [n, 64] with their labels, of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return xgboost.DMatrix(digits.data[chosen], label=digits.target[chosen])


def accuracy(model: xgboost.Booster) -> float:
    """Share of the test pictures that are read right, from 0 to 1."""
    test = data(test=True)
    return float(np.mean(model.predict(test).argmax(axis=1) == test.get_label()))


def save(model: xgboost.Booster, job_dir: str) -> None:
    """Write ``model.json`` to the job dir: a folder or Cloud Storage."""
    place = f"{job_dir.rstrip('/')}/model.json"
    if place.startswith("gs://"):
        from google.cloud import storage  # noqa: PLC0415 - a run on one's own machine does without

        bucket, _, name = place[len("gs://") :].partition("/")
        content = bytes(model.save_raw(raw_format="json"))
        storage.Client().bucket(bucket).blob(name).upload_from_string(content)
    else:
        Path(job_dir).mkdir(parents=True, exist_ok=True)
        model.save_model(place)
    print(f"model written to {place}", flush=True)


def main() -> None:
    """Train, save, check the quality."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--max-depth", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    args = parser.parse_args()
    options = {
        "objective": "multi:softprob",
        "num_class": CLASSES,
        "eval_metric": "merror",
        "max_depth": args.max_depth,
        "eta": args.learning_rate,
        "seed": 7,
    }
    train = data(test=False)
    model = xgboost.train(options, train, args.rounds, evals=[(train, "train")], verbose_eval=10)
    if args.job_dir:
        save(model, args.job_dir)
    found = accuracy(model)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < args.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


if __name__ == "__main__":
    main()
