"""``--since`` in the words of kubectl and gcloud."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from encamp.cli.since import since
from encamp.errors import UsageError

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("30s", timedelta(seconds=30)),
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("2026-05-02", timedelta(hours=12)),
        ("2026-05-02T11:59:00Z", timedelta(minutes=1)),
        ("2026-05-02T13:30:00+02:00", timedelta(minutes=30)),
    ],
)
def test_a_duration_or_a_time(text: str, ago: timedelta) -> None:
    assert since(text, NOW) == NOW - ago


@pytest.mark.parametrize("text", ["", "soon", "10", "5x", "m", "30m1h", "2026-13-01", "99999999999d"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no duration and no time"):
        since(text, NOW)
