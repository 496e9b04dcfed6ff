"""The jobs of an environment, opened for verbs that only look at jobs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from encamp.cli.verbosity import Verbosity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.jobs.opening import Looking

JOB = click.argument("job", metavar="JOB")


@contextmanager
def looking(environment: str, verbosity: Verbosity = Verbosity.VERBOSE) -> Iterator[Looking]:
    """Open an environment's jobs; what is said of them goes to stdout as ``verbosity`` lets it.

    Raises:
        UsageError: there is no such environment.
        SandboxError: it is the sandbox's, and that does not run.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `--help` needs none of it
    from encamp.jobs import opening  # noqa: PLC0415

    with opening.looking(environment, Lines(verbosity).context) as known:
        yield known
