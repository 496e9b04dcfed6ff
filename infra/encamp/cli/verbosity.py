"""The level of detail of commands that follow a job: ``--verbose`` and ``--quiet``."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Verbosity(Enum):
    """The level of detail that is shown of a job."""

    QUIET = "quiet"
    """The outcome and errors."""
    SHORT = "short"
    """Also the job's states, what it waits for, and the replicas' lines."""
    VERBOSE = "verbose"
    """Also every resource and every replica."""

    @classmethod
    def of(cls, *, verbose: bool, quiet: bool) -> Verbosity:
        """The verbosity that two flags ask for.

        Raises:
            UsageError: both are given.
        """
        if verbose and quiet:
            raise UsageError("--verbose and --quiet contradict each other", hint="leave one of them out")
        return cls.VERBOSE if verbose else cls.QUIET if quiet else cls.SHORT


def verbosity_options(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add ``--verbose`` and ``--quiet``, which become the arguments ``verbose`` and ``quiet``."""
    verbose = click.option("--verbose", "-v", is_flag=True, help="Show every resource and replica, and a long receipt.")
    quiet = click.option("--quiet", "-q", is_flag=True, help="Show only the outcome and errors.")
    return verbose(quiet(command))
