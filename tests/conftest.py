"""Options and fixtures that every room's tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens", action="store_true", help="write tests/golden/ anew from what the code does now"
    )
