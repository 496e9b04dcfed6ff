"""Tumours, malignant or benign: a small Keras network on one machine."""
