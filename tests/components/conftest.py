"""What the environments beside this file declare, and goldens of it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
Resources = dict[str, dict[str, Any]]


@functools.cache
def _printed() -> str:
    """What all of them register: one process, because the engine's SDK takes seconds to import."""
    stacks = [f"environment/{path.stem}" for path in sorted((HERE / "environments").glob("*.yaml"))]
    ended = subprocess.run(
        [sys.executable, str(HERE / "declare_stack.py"), *stacks],
        env={"PYTHONPATH": str(HERE.parents[1] / "infra"), "PATH": "", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="session")
def declared() -> Callable[[str], Resources]:
    """The resources of ``environments/<name>.yaml``: type and logical name to inputs."""

    def of(name: str) -> Resources:
        found: dict[str, Resources] = json.loads(_printed())
        return found[f"environment/{name}"]

    return of


@pytest.fixture
def same_as_golden(*, rewrite_goldens: bool) -> Callable[[Resources, str], None]:
    """Compares resources with ``golden/<name>.yaml``, or writes it."""

    def compare(resources: Resources, golden: str) -> None:
        path = HERE / "golden" / f"{golden}.yaml"
        written = yaml.safe_dump(resources, sort_keys=True, width=110, allow_unicode=True)
        if rewrite_goldens:
            path.write_text(written)
        assert yaml.safe_load(path.read_text()) == yaml.safe_load(written)

    return compare
