"""Print how many test digits a trained model gets right: ``python evaluate.py gs://BUCKET/jobs/ID/output/model.json``."""

import sys
from pathlib import Path

import xgboost
from google.cloud import storage
from trainer.task import accuracy


def content(path: str) -> bytes:
    """The bytes of a file or of an object of Cloud Storage."""
    if not path.startswith("gs://"):
        return Path(path).read_bytes()
    bucket, _, name = path[len("gs://") :].partition("/")
    return storage.Client().bucket(bucket).blob(name).download_as_bytes()


if __name__ == "__main__":
    model = xgboost.Booster()
    model.load_model(bytearray(content(sys.argv[1])))
    print(f"test accuracy {accuracy(model):.4f}")
