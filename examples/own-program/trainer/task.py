"""Train a random forest on scikit-learn's wines; writes ``<job dir>/quality.json``."""

from __future__ import annotations

import argparse
import json

from google.cloud import storage
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score


def main() -> None:
    """Train, and save how good the model is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    job_dir = parser.parse_args().job_dir
    wines = load_wine()
    accuracy = float(cross_val_score(RandomForestClassifier(random_state=7), wines.data, wines.target, cv=3).mean())
    bucket, _, folder = job_dir.removeprefix("gs://").partition("/")
    blob = storage.Client().bucket(bucket).blob(f"{folder}/quality.json")
    blob.upload_from_string(json.dumps({"accuracy": accuracy}))
    print(f"accuracy {accuracy:.4f}, written to {job_dir}", flush=True)


if __name__ == "__main__":
    main()
