"""Fixtures of this folder's tests."""

from tests.run.reap.ground import driver, ground

__all__ = ["driver", "ground"]
