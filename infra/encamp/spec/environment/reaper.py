"""The ``reaper`` block of an environment: a reaper in its own cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.in_cluster import InClusterSpec, in_cluster_problems
from encamp.spec.environment.problems import Found
from encamp.spec.fields import Text  # noqa: TC001 - a model's field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

DEFAULT_SCHEDULE = "*/10 * * * *"

_CRON = re.compile(r"(?:[0-9*,/-]+|[A-Za-z,-]+)(?: (?:[0-9*,/-]+|[A-Za-z,-]+)){4}")


class ReaperSpec(InClusterSpec):
    """A CronJob that runs ``encamp reap``."""

    schedule: Text = DEFAULT_SCHEDULE
    """Cron schedule in UTC."""


def reaper_problems(reaper: ReaperSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    yield from in_cluster_problems(reaper, environment, instead="`encamp reap`")
    if not _CRON.fullmatch(reaper.schedule):
        message = f"{reaper.schedule!r} must have five fields, as cron has them"
        yield Found(("schedule",), message, f"such as {DEFAULT_SCHEDULE}")
