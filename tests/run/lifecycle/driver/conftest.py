"""Fixtures of this folder's tests."""

from tests.run.lifecycle.driver.world import world

__all__ = ["world"]
