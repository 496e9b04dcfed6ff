"""The trainer of the example."""
