"""``--since`` as kubectl and gcloud have it: how long ago, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from encamp.errors import UsageError

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?")


def since(text: str, now: datetime) -> datetime:
    """The time that ``--since`` means: ``10m``, ``1h30m`` or ``2d`` before now, or a date or time, UTC without a zone.

    Raises:
        UsageError: it is neither.
    """
    words = text.strip()
    try:
        if words and _DURATION.fullmatch(words):
            seconds = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", words))
            return now - timedelta(seconds=seconds)
        at = datetime.fromisoformat(words)
        return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no duration and no time",
            where="--since",
            hint="such as 30s, 10m, 1h30m, 2d, 2026-05-01 or 2026-05-01T12:00:00Z",
        ) from None
