"""encamp: one training job file in, trained model and empty bill out."""

__version__ = "0.1.0"
