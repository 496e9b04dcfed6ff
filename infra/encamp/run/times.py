"""Times as text: as AI Platform's resources have them, and in microseconds, as logs do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 253_402_300_799_999_999


def rfc3339(at: datetime | float | None) -> str | None:
    """Return a time, or seconds since the epoch, as RFC 3339 text in UTC with milliseconds. None for None."""
    if at is None:
        return None
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(text: str | None) -> datetime | None:
    """Read RFC 3339 text; None for malformed text."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def micros(at: datetime) -> int:
    """Return microseconds since the epoch."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def read_micros(text: str) -> int:
    """Return microseconds since the epoch of an RFC 3339 time.

    Raises:
        ValueError: it is malformed.
    """
    return micros(datetime.fromisoformat(text))


def moment(at: int) -> datetime:
    """Return a time in UTC of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=min(max(at, 0), _LAST))


def written(at: int) -> str:
    """Return microseconds since the epoch as RFC 3339 in UTC, of one width."""
    return f"{moment(at):%Y-%m-%dT%H:%M:%S.%f}Z"
