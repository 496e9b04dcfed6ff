"""Print how many test digits a trained model gets right: ``python evaluate.py gs://BUCKET/jobs/ID/output/model``."""

import sys

import numpy as np
import tensorflow as tf
from trainer.task import data


def accuracy(path: str) -> float:
    """Share of the test pictures, from 0 to 1, that the SavedModel at ``path`` classifies as they are labelled."""
    serve = tf.saved_model.load(path).signatures["serving_default"]
    pixels, labels = data(test=True)
    (scores,) = serve(tf.constant(pixels)).values()
    return float(np.mean(np.argmax(scores.numpy(), axis=1) == labels))


if __name__ == "__main__":
    print(f"test accuracy {accuracy(sys.argv[1]):.4f}")
