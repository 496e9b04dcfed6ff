"""Options and fixtures that every room's tests share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens", action="store_true", help="write tests/golden/ anew from what the code does now"
    )


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    """Whether the golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite-goldens"))
