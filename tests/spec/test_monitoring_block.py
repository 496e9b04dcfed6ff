"""The monitoring block of an environment: what may be written in it."""

from __future__ import annotations

import pytest

from encamp.errors import SpecError
from encamp.spec.environment import MonitoringSpec, parse_environment

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}


def monitoring(**written: object) -> MonitoringSpec:
    spec = parse_environment(DATA | {"monitoring": written}, project="my-project", source="x")
    assert spec.monitoring is not None
    return spec.monitoring


def test_an_empty_block_asks_for_everything_and_tells_nobody() -> None:
    found = monitoring()
    assert (found.emails, found.channels) == ((), ())
    assert (found.pending_minutes, found.longest_job_hours, found.silent_minutes) == (60, 192, 60)


def test_people_and_channels_of_the_project_are_told() -> None:
    channels = ("projects/my-project/notificationChannels/1", "projects/42/notificationChannels/2")
    found = monitoring(emails=["ml@example.com"], channels=list(channels))
    assert (found.emails, found.channels) == (("ml@example.com",), channels)


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ({"emails": ["ml"]}, "monitoring.emails[0]", "is no mail address"),
        ({"emails": ["a@b.c", "a@b.c"]}, "monitoring.emails", "is listed twice"),
        ({"channels": ["12"]}, "monitoring.channels[0]", "is no full name of a notification channel"),
        ({"channels": ["projects/other/notificationChannels/1"]}, "monitoring.channels[0]", "is of another project"),
        ({"pendingMinutes": 0}, "monitoring.pendingMinutes", "must be from 1 to 1410"),
        ({"pendingMinutes": 1411}, "monitoring.pendingMinutes", "must be from 1 to 1410"),
        ({"silentMinutes": 5000}, "monitoring.silentMinutes", "must be from 1 to 1410"),
        ({"longestJobHours": 0}, "monitoring.longestJobHours", "must be at least 1"),
        ({"email": "a@b.c"}, "monitoring.email", "unknown"),
    ],
)
def test_a_wrong_block_says_where_and_what(written: dict[str, object], path: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        monitoring(**written)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
