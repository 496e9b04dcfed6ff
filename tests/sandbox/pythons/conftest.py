from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.pythons.site import Site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache is an empty one."""
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty site-packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return Site(folder)
