"""Handwritten digits: one machine, a copy of the network on each of its GPUs."""
