"""Wines and their growers: scikit-learn on one machine."""
