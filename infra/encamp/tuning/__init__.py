"""Hyperparameter search: samplers behind ask and tell. Pure, like ``plan``."""
