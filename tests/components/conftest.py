"""What the environments beside this file declare, and goldens of it."""

from __future__ import annotations

import contextlib
import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
Resources = dict[str, dict[str, Any]]


class Programs:
    """The process that runs programs for all tests of this one, started when the first asks."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._known: dict[str, Any] = {}

    def ask(self, asked: dict[str, Any]) -> Any:
        line = json.dumps(asked)
        if line not in self._known:
            self._known[line] = self._answer(line)
        # Tests take out of it what they do not compare.
        return copy.deepcopy(self._known[line])

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()

    def _answer(self, line: str) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "programs.py")],
                env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'infra'}", "PATH": "", "PYTHONWARNINGS": "ignore"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asking, answers = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answers is not None
        asking.write(line + "\n")
        asking.flush()
        said = json.loads(answers.readline() or '{"error": "it has ended; see what it wrote to stderr"}')
        assert "error" not in said, said["error"]
        return said["found"]


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    with contextlib.closing(Programs()) as made:
        yield made


@pytest.fixture(scope="session")
def registered(programs: Programs) -> Callable[[str], Resources]:
    """The resources of a stack, of ``job/<case>`` or of ``environment/<name>``: type and logical name to inputs."""
    return lambda stack: programs.ask({"declare": stack})


@pytest.fixture(scope="session")
def noted(programs: Programs) -> Callable[[str], dict[str, Any]]:
    """What the engine is told of a stack beside inputs: ``ignored`` paths by resource, and ``secret`` outputs."""
    return lambda stack: programs.ask({"note": stack})


@pytest.fixture(scope="session")
def declared(registered: Callable[[str], Resources]) -> Callable[[str], Resources]:
    """The resources of ``environments/<name>.yaml``: type and logical name to inputs."""
    return lambda name: registered(f"environment/{name}")


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
