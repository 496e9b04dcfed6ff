"""A job file: reading it, in each of its forms, with every rule applied.

A file is a whole Job resource, a ``trainingInput:`` alone (the config file that clients passed), or the fields of a
TrainingInput at the top, with ``encamp:`` beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import Problem, SpecError
from encamp.spec.job import TrainingJobSpec
from encamp.spec.job_id import checked_job_id, job_id_from
from encamp.spec.loading import Document, load_document
from encamp.spec.reading import Reading, read_model
from encamp.spec.rules import check
from encamp.spec.rules.case import INPUT, Case
from encamp.spec.training import TrainingInputSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class JobFile:
    """A job that keeps every rule.

    Attributes:
        job: the job; its id is None if neither file nor caller gave one.
        source: the file's name as the user gave it.
        folder: folder that ``encamp.packagePath`` is relative to, None if there is none.
        warnings: what is accepted, but worth knowing.
    """

    job: TrainingJobSpec
    source: str
    folder: Path | None
    warnings: tuple[Problem, ...] = ()

    def named(self, job_id: str | None = None, *, suffix: str = "") -> JobFile:
        """Return the same job with an id: the given one, else the file's own, else one made of the file's stem.

        Args:
            job_id: wins over the file's own.
            suffix: what is added to an id made of the stem, such as a timestamp, so that it is new.

        Raises:
            UsageError: ``job_id`` has not the form of a job id.
        """
        chosen = checked_job_id(job_id) if job_id is not None else self.job.job_id
        if chosen is None:
            chosen = job_id_from(self.stem, suffix=suffix)
        job = self.job.model_copy(update={"job_id": chosen})
        return JobFile(job, self.source, self.folder, self.warnings)

    @property
    def stem(self) -> str:
        """The file's subject: its stem, or its folder's name if the file is called ``job``."""
        parts = self.source.replace("\\", "/").rstrip("/").split("/")
        stem = parts[-1].rsplit(".", 1)[0]
        folder = self.folder.name if self.folder is not None else ""
        return folder if stem in {"job", "config", "hptuning_config"} and folder else stem


def load_job(path: Path, *, source: str | None = None) -> JobFile:
    """Read a job file and apply every rule.

    Raises:
        UsageError: there is no such file.
        SpecError: everything that is wrong with it.
    """
    document = load_document(path, source=source)
    return read_job(document, folder=path.resolve().parent)


def read_job(document: Document, *, folder: Path | None = None) -> JobFile:
    """Return a job of a document; see :func:`load_job`."""
    job, problems, warnings = examine_job(document)
    if problems:
        raise SpecError(document.source, problems)
    return JobFile(job, document.source, folder, tuple(warnings))


def parse_job(data: Mapping[str, Any], *, source: str, folder: Path | None = None) -> JobFile:
    """Return a job of plain data, such as one that stands inline in a stack's config; see :func:`load_job`."""
    return read_job(Document(source, dict(data)), folder=folder)


def examine_job(document: Document) -> tuple[TrainingJobSpec, list[Problem], list[Problem]]:
    """Return the readable part of a job, every problem and every warning, in the order of the file."""
    reading = Reading(document)
    job = _read(document, reading)
    case = Case(job, reading)
    check(case)
    return job, sorted(reading.problems, key=_place), sorted(case.warnings, key=_place)


def _place(problem: Problem) -> tuple[int, str, str]:
    return (problem.line or 0, problem.path, problem.rule or "")


def _read(document: Document, reading: Reading) -> TrainingJobSpec:
    data = document.data
    if not is_bare(data):
        return read_model(TrainingJobSpec, data, reading)
    of_job = _names(TrainingJobSpec)
    job = read_model(TrainingJobSpec, {key: value for key, value in data.items() if key in of_job}, reading)
    rest = {key: value for key, value in data.items() if key not in of_job}
    training_input = read_model(TrainingInputSpec, rest, reading, at=(INPUT,), prefix=())
    return job.model_copy(update={INPUT: training_input})


def is_bare(data: Mapping[str, Any]) -> bool:
    """Whether the fields of a TrainingInput stand at the top."""
    return not (data.keys() & {"trainingInput", INPUT}) and bool(data.keys() & _names(TrainingInputSpec))


def _names(model: type[TrainingJobSpec | TrainingInputSpec]) -> set[str]:
    return {name for field, info in model.model_fields.items() for name in (field, info.alias or field)}
