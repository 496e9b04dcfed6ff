"""A boosted forest in XGBoost; each epoch adds a tree for each digit."""

from __future__ import annotations

from typing import Callable

import numpy as np
import xgboost

NAME = "model.ubj"
Predict = Callable[[np.ndarray], np.ndarray]


def train(pixels: np.ndarray, labels: np.ndarray, epochs: int) -> tuple[Predict, bytes]:
    """A function from pictures to digits, and the model as a file."""
    options = {"objective": "multi:softmax", "num_class": 10}
    model = xgboost.train(options, xgboost.DMatrix(pixels, label=labels), num_boost_round=epochs)
    return lambda given: model.predict(xgboost.DMatrix(given)), bytes(model.save_raw("ubj"))
