"""Pulumi's engine: runs of its CLI, its events and errors, and the states that it keeps."""
