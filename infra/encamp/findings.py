"""Findings of checks of a machine or a stack, and their grades."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Grade(StrEnum):
    """``ok``; ``note``: it works, with less, or somebody should know; ``bad``: it would fail, or lose something."""

    OK = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    grade: Grade
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """Return JSON data."""
        return asdict(self)
