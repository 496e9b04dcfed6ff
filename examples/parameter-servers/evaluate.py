"""Print how many test tumours a trained model tells right: ``python evaluate.py gs://BUCKET/jobs/ID/output/model``."""

import sys

import numpy as np
import tensorflow as tf
from trainer.network import data


def accuracy(path: str) -> float:
    """Share of the test tumours, from 0 to 1, that the SavedModel at ``path`` tells as they are labelled."""
    serve = tf.saved_model.load(path).signatures["serving_default"]
    measurements, labels = data(test=True)
    (odds,) = serve(tf.constant(measurements)).values()
    return float(np.mean((odds.numpy() > 0) == labels))


if __name__ == "__main__":
    print(f"test accuracy {accuracy(sys.argv[1]):.4f}")
