"""Handwritten digits: a Keras model that several machines train in step."""
