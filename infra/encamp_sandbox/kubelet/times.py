"""Times in the two forms that the Kubernetes API has."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Return a time as metav1.Time: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: datetime) -> str:
    """Return a time as metav1.MicroTime: microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime:
    """Read either form."""
    return datetime.fromisoformat(text)
