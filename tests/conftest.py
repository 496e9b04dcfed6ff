"""Options and fixtures that every room's tests share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.rest import GoogleClient

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens", action="store_true", help="write tests/golden/ anew from what the code does now"
    )


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    """Whether the golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite-goldens"))


def _servers() -> Any:
    """The servers' module; tests are files, not packages, so it is loaded by its path."""
    if "encamp_test_servers" not in sys.modules:
        path = Path(__file__).parent / "cloud" / "servers.py"
        spec = importlib.util.spec_from_file_location("encamp_test_servers", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["encamp_test_servers"] = module
        spec.loader.exec_module(module)
    return sys.modules["encamp_test_servers"]


@pytest.fixture
def google() -> Iterator[Any]:
    with _servers().GoogleServer() as server:
        yield server


@pytest.fixture
def client(google: Any) -> Iterator[GoogleClient]:
    with requests.Session() as session:
        yield GoogleClient(session, environ=google.environ(), sleep=lambda _: None)


@pytest.fixture
def kubernetes() -> Iterator[Any]:
    with _servers().KubernetesServer() as server:
        yield server


@pytest.fixture
def cluster(kubernetes: Any) -> Iterator[Cluster]:
    opened = Cluster(kubernetes.kubeconfig(), sleep=lambda _: None)
    yield opened
    opened.close()


@pytest.fixture
def until() -> Any:
    return _servers().until
