"""The ``monitoring`` block of an environment: a dashboard of its jobs, and alerts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

#: A condition may have to hold for so long at most (cloud.google.com/monitoring/api/ref_v3, MetricThreshold.duration).
LONGEST_MINUTES = 23 * 60 + 30
#: A job that says nothing of it may run for seven days; a day more for its waiting and its end.
_LONGEST_JOB_HOURS = 8 * 24

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_CHANNEL = re.compile(r"projects/([^/\s]+)/notificationChannels/[0-9]+")


class MonitoringSpec(Written):
    """A Cloud Monitoring dashboard of the environment's jobs, and alerts on jobs that wait or last too long."""

    emails: tuple[Text, ...] = ()
    """Addresses that alerts are sent to; each becomes a notification channel of the environment's own."""
    channels: tuple[Text, ...] = ()
    """Notification channels that exist, such as ``projects/my-project/notificationChannels/123``: chat and pagers hold
    tokens, so they are made by hand."""
    pending_minutes: Int64 = 60
    """A job with replicas that do not run is reported after this long."""
    longest_job_hours: Int64 = _LONGEST_JOB_HOURS
    """A job's machine that is up for longer is reported."""
    silent_minutes: Int64 = 60
    """A reaper of the environment's own that says nothing is reported after this long."""


def monitoring_problems(monitoring: MonitoringSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    yield from _recipients(monitoring, environment)
    for name in ("pending_minutes", "silent_minutes"):
        minutes: int = getattr(monitoring, name)
        if not 1 <= minutes <= LONGEST_MINUTES:
            yield Found((name,), f"{minutes} must be from 1 to {LONGEST_MINUTES}: alerts look back 23.5 hours")
    if monitoring.longest_job_hours < 1:
        yield Found(("longest_job_hours",), f"{monitoring.longest_job_hours} must be at least 1")


def _recipients(monitoring: MonitoringSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    for at, email in enumerate(monitoring.emails):
        if not _EMAIL.fullmatch(email):
            yield Found(("emails", at), f"{email!r} is no mail address", "such as ml-oncall@example.com")
    for at, channel in enumerate(monitoring.channels):
        found = _CHANNEL.fullmatch(channel)
        if found is None:
            hint = "`gcloud beta monitoring channels list --format='value(name)'` names them"
            yield Found(("channels", at), f"{channel!r} is no full name of a notification channel", hint)
        elif found[1] != environment.project and not found[1].isdecimal():
            message = f"{channel!r} is of another project; alerts use channels of their own"
            yield Found(("channels", at), message, f"make one in {environment.project}")
    for name, listed in (("emails", monitoring.emails), ("channels", monitoring.channels)):
        for twice in sorted({one for one in listed if listed.count(one) > 1}):
            yield Found((name,), f"{twice!r} is listed twice", "leave one out")
