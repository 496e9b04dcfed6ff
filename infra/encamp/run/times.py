"""Times as AI Platform's resources have them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: datetime | float | None) -> str | None:
    """A time, or seconds since the epoch, as RFC 3339 text in UTC with milliseconds; None where there is none."""
    if at is None:
        return None
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
