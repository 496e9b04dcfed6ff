"""The level of detail of messages, and its form in a driver's log."""

from __future__ import annotations

#: Before a ``Detail`` in a driver's log.
_INDENT = "  "


class Detail(str):
    """A line for people who asked for every step: ``--verbose`` shows it, the driver's log always has it."""

    __slots__ = ()


def kept(line: str) -> str:
    """Return a step as a driver's log has it behind its time."""
    return f"{_INDENT}{line}" if isinstance(line, Detail) else line


def kept_step(text: str) -> str:
    """Return the step that ``kept`` wrote."""
    return Detail(text.removeprefix(_INDENT)) if text.startswith(_INDENT) else text
