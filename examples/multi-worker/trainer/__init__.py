"""Handwritten digits: several machines in step, checkpoints, and an evaluator beside them."""
