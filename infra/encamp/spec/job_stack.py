"""The config of a job's stack: its job, and its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.errors import Problem, SpecError
from encamp.spec.fields import Text, Written
from encamp.spec.job_file import JobFile, load_job, parse_job
from encamp.spec.job_id import job_id_from
from encamp.spec.loading import Document
from encamp.spec.paths import dotted
from encamp.spec.reading import Reading, read_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILE_KEYS = {"file", "jobId", "job_id"}


class JobReference(Written):
    """A job that lies in a file of the repository."""

    file: Text = ""
    """Path of the job file, relative to the repository."""
    job_id: Text | None = None
    """Id of the job; wins over the file's own."""


def read_job_stack(data: Mapping[str, Any], *, repository: Path, stack: str, folder: Path | None = None) -> JobFile:
    """Return the job of a stack's config value ``encamp:job``, with its id.

    Args:
        data: ``{file, jobId?}``, or the job itself.
        repository: folder that ``file`` is relative to and must stay in.
        stack: name of the stack; the job's id is made of it where nothing else gives one.
        folder: folder that ``packagePath`` of an inline job is relative to, the repository where there is none.

    Raises:
        UsageError: there is no such file, or the id has not the form of one.
        SpecError: everything that is wrong with the config or with the job.
    """
    source = f"stack {stack}, encamp:job"
    if not data.keys() <= _FILE_KEYS or "file" not in data:
        found = parse_job(data, source=source, folder=folder or repository)
        return found.named(found.job.job_id or job_id_from(stack))
    reading = Reading(Document(source, dict(data)))
    reference = read_model(JobReference, dict(data), reading)
    path = _inside(reference.file, repository, reading)
    if reading.problems or path is None:
        raise SpecError(source, reading.problems)
    return load_job(path, source=reference.file).named(reference.job_id)


def _inside(file: str, repository: Path, reading: Reading) -> Path | None:
    """Return the file's path, links followed, if it stays inside the repository."""
    path = (repository / file).resolve()
    if not file or not path.is_relative_to(repository.resolve()):
        reading.problems.append(
            Problem(
                dotted(("file",)),
                None,
                None,
                f"{file!r} must be a file inside the repository",
                "examples/digits/job.yaml",
            )
        )
        return None
    return path
