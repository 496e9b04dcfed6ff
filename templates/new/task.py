"""A first trainer: reads handwritten digits, and writes a model to the job dir. Replace data and model by yours."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from trainer.model import NAME, train

#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def save(job_dir: str, name: str, content: bytes) -> None:
    """Write a file of the job dir: Cloud Storage, or a folder of this machine."""
    place = f"{job_dir.rstrip('/')}/{name}"
    if place.startswith("gs://"):
        from google.cloud import storage

        bucket, _, blob = place[len("gs://") :].partition("/")
        storage.Client().bucket(bucket).blob(blob).upload_from_string(content)
    else:
        Path(job_dir).mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(content)
    print(f"written: {place}", flush=True)


def main() -> None:
    """Train, say how good the model is, save it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--job-dir", default="output")
    args = parser.parse_args()
    digits = load_digits()
    pixels = (digits.data / 16).astype(np.float32)
    test = np.arange(len(pixels)) % TEST_EVERY == 0
    predict, content = train(pixels[~test], digits.target[~test], args.epochs)
    accuracy = float((predict(pixels[test]) == digits.target[test]).mean())
    print(f"accuracy: {accuracy:.3f}", flush=True)
    save(args.job_dir, NAME, content)


if __name__ == "__main__":
    main()
