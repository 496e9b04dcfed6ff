"""Handwritten digits: a small network, trained by several machines at once."""
