"""A span of time, as Google's JSON writes it (``"3600s"``, ``"0.5s"``) and as people read it (``1 h 30 min``).

Everything that reads or writes such a text does it by :class:`Duration`. Source of the form and of its bounds:
protobuf.dev, google.protobuf.Duration. Spans below 0 are refused: nothing in encamp lasts less than no time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

_NANOS: Final = 1_000_000_000
_MOST_DIGITS: Final = 9
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SHOWN: Final = 60


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A span of time, exact to the nanosecond. ``str`` gives the text for a request: ``3600s``."""

    nanoseconds: int

    #: The form of the text, as a regular expression that holds for the whole of it.
    PATTERN = rf"^[0-9]+(\.[0-9]{{1,{_MOST_DIGITS}}})?s$"
    #: The largest duration that the protocol has: 10 000 years.
    LONGEST_SECONDS = 315_576_000_000

    @classmethod
    def of(cls, seconds: float) -> Self:
        """Return a duration of so many seconds."""
        whole = isinstance(seconds, int)
        return cls(int(seconds) * _NANOS if whole else round(seconds * _NANOS))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the duration that a text such as ``3600s`` means.

        Raises:
            ValueError: what the text must be instead.
        """
        if not re.fullmatch(cls.PATTERN, text):
            raise ValueError(f"must be seconds with at most {_MOST_DIGITS} decimals and an s at the end")
        whole, _, fraction = text.removesuffix("s").partition(".")
        digits = whole.lstrip("0") or "0"
        longest = len(digits) > len(str(cls.LONGEST_SECONDS))
        found = None if longest else cls(int(digits) * _NANOS + int(fraction.ljust(_MOST_DIGITS, "0")))
        if found is None or found > cls.of(cls.LONGEST_SECONDS):
            raise ValueError(f"must be at most {cls.LONGEST_SECONDS}s, the longest duration")
        return found

    @property
    def seconds(self) -> int:
        """Whole seconds, rounded up."""
        return -(-self.nanoseconds // _NANOS)

    @property
    def words(self) -> str:
        """The two largest units, rounded down: ``2 d 3 h``, ``1 h 30 min``, ``45 s``."""
        left = self.nanoseconds // _NANOS
        for (size, name), (below, below_name) in pairwise(_UNITS):
            if left >= size:
                rest = left % size // below
                return f"{left // size} {name} {rest} {below_name}" if rest else f"{left // size} {name}"
        return f"{left} s"

    def __str__(self) -> str:
        whole, nanos = divmod(self.nanoseconds, _NANOS)
        fraction = f".{nanos:0{_MOST_DIGITS}}".rstrip("0") if nanos else ""
        return f"{whole}{fraction}s"


def seconds_of(duration: Duration | None) -> int | None:
    """Return whole seconds of a duration, rounded up; None if there is none."""
    return duration.seconds if duration is not None else None


def duration_hint(value: object) -> str:
    """Return what to write instead of a value that is no duration, with the number that it probably means."""
    digits = str(value)
    if isinstance(value, (int, str)) and not isinstance(value, bool) and len(digits) < _SHOWN and digits.isdecimal():
        return f'write "{digits}s": seconds with an s'
    return 'write seconds with an s, such as "3600s"'
