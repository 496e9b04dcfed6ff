"""A job as whoever wants it run gives it: a file, or the job itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from encamp.spec.job import TrainingJobSpec
from encamp.spec.job_file import load_job, parse_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.job_file import JobFile

#: What messages call a job that lies in no file.
SOURCE = "the job"


class NamedJob(Protocol):
    """A job that can be read by an id."""

    def load(self, job_id: str | None, *, suffix: str = "") -> JobFile:
        """The job with an id: the given one, else one of its own or a new one with the suffix."""
        ...


@dataclass(frozen=True)
class GivenJob:
    """A job as a Python program gives it; arguments as for ``encamp.jobs.plan``."""

    job: str | os.PathLike[str] | Mapping[str, Any] | TrainingJobSpec
    folder: str | os.PathLike[str] | None = None

    def load(self, job_id: str | None, *, suffix: str = "") -> JobFile:
        """The job with an id.

        Raises:
            SpecError: everything that is wrong with it.
            UsageError: there is no such file, or the id has not the form of one.
        """
        job = self.job
        if isinstance(job, (str, os.PathLike)):
            return load_job(Path(job), source=os.fspath(job)).named(job_id, suffix=suffix)
        data = (
            job.model_dump(mode="json", by_alias=True, exclude_none=True) if isinstance(job, TrainingJobSpec) else job
        )
        folder = Path(self.folder or ".").resolve()
        return parse_job(data, source=SOURCE, folder=folder).named(job_id, suffix=suffix)
