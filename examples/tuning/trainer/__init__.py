"""Handwritten digits: a small network, trained with the values that it is given."""
