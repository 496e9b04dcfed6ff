"""Handwritten digits without any framework: a process group over sockets."""
