"""Print how many test digits a trial's model tells: ``python evaluate.py gs://BUCKET/jobs/ID/output/7/model.joblib``."""

import io
import sys
from pathlib import Path

import joblib
from google.cloud import storage
from trainer.task import TEST, data


def content(path: str) -> bytes:
    """The bytes of a file or of an object of Cloud Storage."""
    if not path.startswith("gs://"):
        return Path(path).read_bytes()
    bucket, _, name = path[len("gs://") :].partition("/")
    return storage.Client().bucket(bucket).blob(name).download_as_bytes()


if __name__ == "__main__":
    # A joblib file is a program: load only what your own jobs wrote, with the scikit-learn that wrote it.
    model = joblib.load(io.BytesIO(content(sys.argv[1])))
    print(f"test accuracy {model.score(*data(TEST)):.4f}")
