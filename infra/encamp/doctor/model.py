"""What is found, and how grave it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from encamp.errors import EncampError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Grade(StrEnum):
    """``ok``; ``note``: it works, but somebody should know; ``bad``: the stack would fail, or lose something."""

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
        """As JSON data."""
        return asdict(self)


Look = tuple[str, "Callable[[], Iterator[Finding]]"]


def look(subject: str, at: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What is found; what cannot be looked at is a finding too, and keeps nobody from looking at the rest."""
    try:
        yield from at()
    except EncampError as error:
        place = f"{error.where}: " if error.where else ""
        yield Finding(subject, Grade.BAD, f"{place}{error.what}", error.hint or "")
