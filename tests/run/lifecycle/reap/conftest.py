"""Fixtures of this folder's tests."""

from tests.run.lifecycle.reap.ground import driver, ground

__all__ = ["driver", "ground"]
