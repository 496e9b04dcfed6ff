"""Ids of jobs: their form, and where one comes from that the file does not give."""

from __future__ import annotations

import re

from encamp.errors import UsageError

#: V01. A letter, then letters, digits and ``_``; 128 characters at most.
PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
LONGEST = 128


def is_job_id(text: str) -> bool:
    """Whether a text has the form of a job id (V01)."""
    return PATTERN.fullmatch(text) is not None


def checked_job_id(text: str) -> str:
    """Return the id itself.

    Raises:
        UsageError: it has not the form of a job id.
    """
    if not is_job_id(text):
        raise UsageError(
            f"{text!r} is no job id: a letter, then letters, digits and _, at most {LONGEST} characters",
            where="job id",
            hint=f"write {job_id_from(text)}",
        )
    return text


def job_id_from(stem: str, *, suffix: str = "") -> str:
    """Return a valid id made of any text, such as a file's stem.

    Args:
        stem: what the id should remind of.
        suffix: appended after ``_`` and never cut, such as a timestamp; letters, digits and ``_`` only.
    """
    ending = f"_{suffix}" if suffix else ""
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")
    if not slug or not slug[0].isalpha():
        slug = f"job_{slug}".rstrip("_")
    return checked_job_id(slug[: LONGEST - len(ending)].rstrip("_") + ending)
