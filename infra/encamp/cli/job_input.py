"""The input of verbs that read a job: its file, flags over it, its id, its packages and its environment."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from encamp.cli.job_flags import URIS_PATH, flag_names
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.errors import Problem
    from encamp.plan.imports import MissingImport
    from encamp.plan.model import JobPlan
    from encamp.plan.replicas import RoleRequest
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.job_file import JobFile
    from encamp.spec.loading import DataPath, Document
    from encamp.spec.overrides import Overrides

JOB_ID = click.option("--job-id", metavar="ID", help="Id of the job; wins over the file's own.")
FORMAT = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people or JSON for programs.",
)

_TRAINER, _PACKAGES = ("encamp", "packagePath"), ("encamp", "packages")
_JOB_ID_PATH = ("jobId",)
_SPELLINGS = {_TRAINER: ("packagePath", "package_path"), _PACKAGES: ("packages",)}


@dataclass(frozen=True)
class JobInput:
    """A job as a command was given it.

    Attributes:
        file: its file, None where flags alone describe it.
        values: fields that flags gave; local packages are absolute paths.
        working: folder that the command was called in.
        job_id: the id that stood before ``--config``, as the old client took it; None where there was none.
    """

    file: Path | None
    values: Mapping[DataPath, Any]
    working: Path
    job_id: str | None = None

    @classmethod
    def made(cls, file: Path | None, config: Path | None, values: Mapping[DataPath, Any], working: Path) -> JobInput:
        """The input of a command.

        Raises:
            UsageError: there is neither file nor flag, or the file is named twice.
        """
        job_id = None
        if file is not None and config is not None:
            file, job_id = None, _id_before_config(file, working)
        if file is None and config is None and not values:
            raise UsageError(
                "no job is named",
                where="JOB.yaml",
                hint="name a job file, or describe the job by flags such as --package-path and --module-name",
            )
        given = dict(values)
        if _TRAINER in given:
            given[_TRAINER] = os.path.abspath(working / given[_TRAINER])  # noqa: PTH100 - links stay as they are
        if _PACKAGES in given:
            listed = [part.strip() for part in given[_PACKAGES].split(",") if part.strip()]
            given[URIS_PATH] = [part for part in listed if part.startswith("gs://")] or None
            local = [os.path.abspath(working / part) for part in listed if not part.startswith("gs://")]  # noqa: PTH100
            given[_PACKAGES] = local or None
        return cls(file or config, given, working, job_id)

    @property
    def source(self) -> str:
        """Its name in messages."""
        from encamp.spec.overrides import COMMAND_LINE  # noqa: PLC0415 - help pages need no models

        return str(self.file) if self.file is not None else COMMAND_LINE

    def examine(self) -> tuple[TrainingJobSpec, list[Problem], list[Problem]]:
        """The job as far as it can be read, every problem and every warning.

        Raises:
            UsageError: there is no such file.
            SpecError: the file is no YAML and no JSON.
        """
        from encamp.spec.overrides import examine_overridden  # noqa: PLC0415

        document, overrides, folder = self._merged()
        job, problems, warnings = examine_overridden(document, _with_id(overrides, self.job_id, "JOB"))
        if not problems:
            problems += self._trainer_problems(job, document, folder)
        return job, problems, warnings

    def _trainer_problems(self, job: TrainingJobSpec, document: Document | None, folder: Path) -> list[Problem]:
        """Return what is wrong with the trainer folder, by flag or line."""
        from encamp.packaging.module import trainer_problem  # noqa: PLC0415

        found = trainer_problem(job, folder)
        if found is None:
            return []
        from pydantic.alias_generators import to_snake  # noqa: PLC0415

        path = tuple(found.path.split("."))
        if path in self.values:
            return [dataclasses.replace(found, path=flag_names()[path])]
        snake = (path[0], to_snake(path[1]))
        lines = document.lines if document is not None else {}
        places = (path, snake, path[1:], snake[1:])
        return [dataclasses.replace(found, line=next((lines[at] for at in places if at in lines), None))]

    def missing_imports(self, job: TrainingJobSpec, requests: Sequence[RoleRequest]) -> list[MissingImport]:
        """Return the imports that stock images lack; none if the trainer cannot be read."""
        if job.encamp.package_path is None:
            return []
        from encamp.errors import EncampError  # noqa: PLC0415 - as above
        from encamp.packaging.imports import folder_imports  # noqa: PLC0415
        from encamp.plan.imports import stock_containers, trainer_misses  # noqa: PLC0415

        beside = self._merged()[2].resolve()
        folder = (beside / job.encamp.package_path).resolve()
        if not folder.is_relative_to(beside) or not folder.is_dir():
            return []
        try:
            trainer = folder_imports(folder, job.training_input.python_module)
            return trainer_misses(job, stock_containers(job, requests), trainer) if trainer is not None else []
        except EncampError:
            # What is wrong with the folder or the image, the plan says.
            return []

    def load(self, job_id: str | None, *, suffix: str = "") -> JobFile:
        """The job, with an id: the given one, else the file's own, else one made of the file or of the trainer.

        Raises:
            SpecError: everything that is wrong with the job.
            UsageError: there is no such file, the id has not the form of one, or two are given.
        """
        from encamp.spec.job_id import is_job_id, job_id_from  # noqa: PLC0415
        from encamp.spec.overrides import read_overridden  # noqa: PLC0415

        if job_id is not None and self.job_id not in {None, job_id}:
            raise UsageError(f"the job is called {self.job_id} already", where="--job-id", hint="leave one of them out")
        job_id = job_id if job_id is not None else self.job_id
        document, overrides, folder = self._merged()
        if job_id is not None and is_job_id(job_id):
            # A study may go on from the job that the file names, under another id.
            overrides = _with_id(overrides, job_id, "--job-id")
        found = read_overridden(document, overrides, folder=folder)
        if self.file is not None:
            # The id is made of the file's place, wherever flags found packages.
            named = dataclasses.replace(found, folder=self.file.resolve().parent).named(job_id, suffix=suffix)
            return dataclasses.replace(named, folder=folder)
        trainer = self.values.get(_TRAINER)
        module: str | None = self.values.get(("trainingInput", "pythonModule"))
        stem = Path(trainer).name if trainer is not None else (module or "job").partition(".")[0]
        return found.named(job_id if job_id is not None else job_id_from(stem, suffix=suffix))

    def _merged(self) -> tuple[Document | None, Overrides, Path]:
        """File, flags, and the folder that the local packages of both are relative to."""
        from encamp.spec.loading import load_document  # noqa: PLC0415
        from encamp.spec.overrides import Overrides  # noqa: PLC0415

        document = load_document(self.file) if self.file is not None else None
        beside = self.file.resolve().parent if self.file is not None else self.working
        local = [path for path in (self.values.get(_TRAINER), *(self.values.get(_PACKAGES) or ())) if path is not None]
        if not local:
            return document, Overrides(self.values, flag_names()), beside
        kept = _local_fields(document, self.values)
        folder = _common(self.working, [Path(path).parent for path in local] + ([beside] if kept else []))
        values = dict(self.values)
        if values.get(_TRAINER) is not None:
            values[_TRAINER] = os.path.relpath(values[_TRAINER], folder)
        if values.get(_PACKAGES) is not None:
            values[_PACKAGES] = [os.path.relpath(path, folder) for path in values[_PACKAGES]]
        if document is not None and kept:
            block = {**document.data["encamp"], **{key: _moved(value, beside, folder) for key, value in kept.items()}}
            document = dataclasses.replace(document, data={**document.data, "encamp": block})
        return document, Overrides(values, flag_names()), folder


def _id_before_config(given: Path, working: Path) -> str:
    """The job id of ``census_1 --config FILE``, the old client's order.

    Raises:
        UsageError: it is no job id, or a file.
    """
    from encamp.spec.job_id import is_job_id  # noqa: PLC0415

    if (working / given).exists() or not is_job_id(str(given)):
        raise UsageError("names a second file", where="--config", hint=f"leave {given} or --config out")
    return str(given)


def _with_id(overrides: Overrides, job_id: str | None, flag: str) -> Overrides:
    from encamp.spec.overrides import Overrides  # noqa: PLC0415

    if job_id is None:
        return overrides
    return Overrides({**overrides.values, _JOB_ID_PATH: job_id}, {**overrides.flags, _JOB_ID_PATH: flag})


def _local_fields(document: Document | None, values: Mapping[DataPath, Any]) -> dict[str, Any]:
    """The fields of a file that name local packages and that no flag replaces, as spelled."""
    block = document.data.get("encamp") if document is not None else None
    if not isinstance(block, dict):
        return {}
    return {
        key: block[key] for path, keys in _SPELLINGS.items() if path not in values for key in keys if block.get(key)
    }


def _common(working: Path, folders: list[Path]) -> Path:
    """The nearest folder above all; the working directory where it is one."""
    if all(folder.is_relative_to(working) for folder in folders):
        return working
    return Path(os.path.commonpath(folders))


def _moved(value: Any, beside: Path, folder: Path) -> Any:
    """A file's local package relative to another folder; what rules refuse stays as it is."""
    if isinstance(value, list):
        return [_moved(part, beside, folder) for part in value]
    if not isinstance(value, str) or PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        return value
    if not (beside / value).resolve().is_relative_to(beside):
        raise UsageError(f"{value!r} leads out of the job file's folder by a link", where="encamp")
    return (beside.relative_to(folder) / value).as_posix()


def plan_of(job: JobInput, environment: str, job_id: str | None) -> JobPlan:
    """The plan of a job, with what the sandbox does otherwise among its warnings.

    Raises:
        SpecError: the job is wrong.
        PlanError: no plan can be made of it.
        UsageError: file, environment or id are not there or not usable, or the trainer cannot be built.
    """
    from encamp.jobs.running import planned  # noqa: PLC0415 - help pages need no models

    return planned(job, job_id, environment)
