"""Handwritten digits: XGBoost on one machine."""
