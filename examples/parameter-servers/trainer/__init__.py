"""Tumours, malignant or benign: weights on parameter servers, workers that need not wait for each other."""
