"""The level of detail of what commands say."""

from __future__ import annotations


class Detail(str):
    """A line for people who asked for every step: ``--verbose`` shows it, the driver's log always has it."""

    __slots__ = ()
