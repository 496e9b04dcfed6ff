"""Handwritten digits: one network, its layers split over the GPUs of a machine."""
