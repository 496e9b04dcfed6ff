"""Fixtures of this folder's tests."""

from tests.run.driver.world import world

__all__ = ["world"]
