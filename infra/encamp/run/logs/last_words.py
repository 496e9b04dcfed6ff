"""The reason of a failure out of a replica's last lines: the exception that ended it, as the old service reported it.

The lines come from the trainer, so they are untrusted: what is taken of them has one line of bounded length, without
control characters and without secrets of a known form. It is text for people; nothing is decided by it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.redaction import redacted
from encamp.spec.distributions import distribution_of
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Characters of a reason at most.
LONGEST_REASON = 300
_HEADER = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,99}\.){0,20}[A-Za-z_]\w{0,99}(?:: .*)?")
#: Without the header, which may be lost of a long traceback, the name itself has to look like an exception's.
_NAMED = re.compile(r"(?:[A-Za-z_]\w{0,99}\.){0,20}\w{0,99}(?:Error|Exception|Exit|Interrupt|Warning)(?:: .*)?")
#: Lines of output that may stand between a traceback's last frame and its exception.
_STRANGERS = 2
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z_][\w.]{0,99})'")


def last_words(lines: Sequence[str]) -> str:
    """Return the last line of the exception among a replica's last lines, else the last line. Empty without one."""
    cause = _exception(lines)
    if cause is not None:
        return bounded(cause)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return bounded(f"last line: {last}") if last else ""


def bounded(text: str) -> str:
    """Return foreign text as one line for people, of ``LONGEST_REASON`` characters at most."""
    # Cut first: what is longer is nobody's message, and looking for secrets in it takes time.
    line = visible(redacted(" ".join(text[: 4 * LONGEST_REASON].split())))
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."


def requirement_hint(reason: str) -> str:
    """Return how to add the distribution that a ModuleNotFoundError asks for; empty if it is not known.

    Only names that are known are proposed: a trainer's own module that was not packed, or a name with a typing error,
    may be a stranger's distribution on the Python Package Index.
    """
    missing = _NO_MODULE.fullmatch(reason)
    name = distribution_of(missing[1]) if missing else None
    return f"try --requirement {name}" if name else ""


def _exception(lines: Sequence[str]) -> str | None:
    """Return the line that names the exception of the last traceback, None if there is no traceback.

    The two streams of a program are read side by side, so a line of its output may stand anywhere in a traceback.
    """
    headers = [at for at, line in enumerate(lines) if line.strip() == _HEADER]
    if headers:
        after = [line.strip() for line in lines[headers[-1] + 1 :] if line.strip() and not line.startswith(" ")]
        return next((line for shape in (_NAMED, _EXCEPTION) for line in after if shape.fullmatch(line)), None)
    found = [line for at, line in enumerate(lines) if _NAMED.fullmatch(line) and _follows_a_frame(lines, at)]
    return found[-1] if found else None


def _follows_a_frame(lines: Sequence[str], at: int) -> bool:
    return any(line.startswith("  ") for line in lines[max(0, at - _STRANGERS - 1) : at])
