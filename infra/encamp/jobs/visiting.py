"""Lets a process that goes on afterwards enter an environment's cloud for one call.

Which cloud a process asks is a matter of its environment variables, which the engine and the libraries of Google read.
A command is about one cloud and ends; a notebook must find its variables as they were.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from encamp.default_stack import chosen_environment
from encamp.errors import UsageError
from encamp.jobs.target import enter_for, environment_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.spec.environment import EnvironmentSpec


@contextmanager
def visiting(environment: str | None) -> Iterator[str]:
    """Enter an environment's cloud, and leave it again; gives the name of the environment's stack.

    Raises:
        UsageError: there is no such environment, or another call of this process is in another cloud.
        SandboxError: it is the sandbox's, and that does not run.
    """
    stack = chosen_environment(environment)
    spec = environment_named(stack)
    _VISITS.begin(spec)
    try:
        yield stack
    finally:
        _VISITS.end()


class _Visits:
    """Counts the calls that are in the one cloud that this process is in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._in_sandbox = False
        #: Of each variable that entering set, its value before, None where there was none.
        self._before: dict[str, str | None] = {}

    def begin(self, spec: EnvironmentSpec) -> None:
        with self._lock:
            if self._calls and self._in_sandbox != spec.is_sandbox:
                inside = "the sandbox's" if self._in_sandbox else "Google's"
                raise UsageError(
                    f"another call of this process is in {inside} cloud",
                    where=f"environment {spec.name}",
                    hint="wait for its end, or use another process",
                )
            if not self._calls:
                before = dict(os.environ)
                try:
                    enter_for(spec)
                except BaseException:
                    self._note(before)
                    self._restore()
                    raise
                self._note(before)
                self._in_sandbox = spec.is_sandbox
            self._calls += 1

    def _note(self, before: Mapping[str, str]) -> None:
        self._before = {name: before.get(name) for name, value in os.environ.items() if before.get(name) != value}

    def end(self) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._restore()

    def _restore(self) -> None:
        """Undo what entering set; what others set meanwhile stays."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {}


_VISITS = _Visits()
