"""A job that ran before, as the record has it, for running it again.

The record keeps a job without its secrets and without its packages. What it leaves out is named, never guessed; and
what it holds of this machine's paths is read below a folder that the caller names: others may write a record, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.redaction import MASK
from encamp.run.results.source import source_text, trainer_source
from encamp.spec.job_id import job_id_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from encamp.run.store.intent import Intent

#: The time that `encamp run` adds to an id that it makes.
_STAMP = re.compile(r"_\d{8}_\d{6}$")
_AGAIN = "run its job file with `encamp run`"


@dataclass(frozen=True)
class RecordedJob:
    """A job to run again.

    Attributes:
        data: the Job resource, with the id that it had.
        changed: how its trainer differs from the one that ran before, empty if it does not as far as is known.
    """

    data: dict[str, Any]
    changed: str


def recorded_job(intent: Intent, folder: Path) -> RecordedJob:
    """Return the job of an intent; packages of this machine lie below ``folder``.

    Raises:
        UsageError: the record does not hold enough of it, or its packages are not below the folder.
    """
    if intent.job is None:
        raise UsageError("the record does not hold this job's file", where=intent.job_id, hint=_AGAIN)
    hidden = list(_masked(intent.job))
    if hidden:
        raise UsageError(f"the record leaves out the secret in {', '.join(hidden)}", where=intent.job_id, hint=_AGAIN)
    for path in _packages(intent.job):
        if not (folder / path).exists():
            raise UsageError(
                f"its package {path} is not in {folder.resolve()}, and the record keeps no packages",
                where=intent.job_id,
                hint="name the folder of its job file by --folder",
            )
    return RecordedJob(dict(intent.job), _change(intent, folder))


def new_job_id(before: str, suffix: str) -> str:
    """Return an id like that of before, with another time."""
    return job_id_from(_STAMP.sub("", before), suffix=suffix)


def _packages(job: Mapping[str, Any]) -> list[str]:
    """Return paths of this machine that a job names, relative to its file."""
    block = job.get("encamp") or {}
    return [*([block["packagePath"]] if block.get("packagePath") else []), *(block.get("packages") or ())]


def _change(intent: Intent, folder: Path) -> str:
    """Return how the trainer differs from the earlier one; empty if it does not."""
    before = intent.source
    now = trainer_source(intent.job or {}, folder)
    if before is None or before == now:
        return ""
    if now is None:
        return f"the trainer was {source_text(before)}; the one here is in no commit"
    return f"the trainer was {source_text(before)}; it is now {source_text(now)}"


def _masked(data: Any, path: str = "") -> Iterator[str]:
    """Yield paths of texts of which something secret was left out."""
    if isinstance(data, str):
        if MASK in data:
            yield path
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _masked(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, (list, tuple)):
        for index, value in enumerate(data):
            yield from _masked(value, f"{path}[{index}]")
