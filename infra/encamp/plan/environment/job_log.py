"""The log in the project that encamp writes job events to: its name, the events, and their fields.

Whoever brings a job to its end writes there, and an environment's metrics and alerts read it. The fields are a promise
to both.
"""

from __future__ import annotations

from enum import StrEnum

from encamp.plan.model import ENVIRONMENT_LABEL

#: Id of the log: ``projects/P/logs/encamp-jobs``.
LOG_ID = "encamp-jobs"

EVENT, JOB, STATE, WHY, COST = "event", "job", "state", "why", "costUsd"


class Event(StrEnum):
    """The event of an entry, in its field ``event``.

    ``ENDED``: a job has an outcome and a receipt. ``NOT_ENDED``: something of a job may still exist that should not.
    ``REAPED``: the environment's own reaper has looked at every job.
    """

    ENDED = "ended"
    NOT_ENDED = "not-ended"
    REAPED = "reaped"


def log_name(project: str) -> str:
    """Return the full name of the log."""
    return f"projects/{project}/logs/{LOG_ID}"


def log_filter(project: str, environment: str, event: Event, *more: str) -> str:
    """Return the filter of one event's entries of one environment, in the logging query language.

    ``more`` narrows it.
    """
    parts = (
        f'logName="{log_name(project)}"',
        f'labels."{ENVIRONMENT_LABEL}"="{environment}"',
        f'jsonPayload.{EVENT}="{event}"',
        *more,
    )
    return " AND ".join(parts)
