"""The jobs of the tests, by name: goldens, rows of the tables in ``plan/jobs/``, examples, and invalid files.

A row is a job file and the facts that its plan must have. Invalid files and what is wrong stand in ``spec/problems/``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job
from encamp.spec.loading import Document, parse_document

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job_file import JobFile

REPOSITORY = Path(__file__).resolve().parents[1]
GOLDEN = REPOSITORY / "tests" / "golden"
TABLES = REPOSITORY / "tests" / "plan" / "jobs"
PROBLEMS = REPOSITORY / "tests" / "spec" / "problems"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class JobCase:
    """A job that tests plan.

    Attributes:
        name: unique among all cases; the job id too, with ``_`` for ``-``, if the file has none.
        text: the job file.
        environment: fields of the environment that the case changes.
        expected: facts of the plan, by the names of ``job_facts.py``; only rows of tables have them.
        table: file name of the row's table without its suffix, empty for other cases.
    """

    name: str
    text: str
    environment: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    table: str = ""

    def document(self) -> Document:
        """The job file, read but not checked."""
        return parse_document(self.text.encode(), source="job.yaml")

    def job_file(self) -> JobFile:
        """The checked job, with an id."""
        found = parse_job(self.document().data, source="job.yaml")
        return found.named(None if found.job.job_id else self.name.replace("-", "_"))

    def environment_in(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """An environment, with what this case changes."""
        if not self.environment:
            return environment
        data = environment.model_dump(exclude_none=True, exclude_defaults=True) | self.environment
        return parse_environment(data, project=environment.project, source=self.name)

    def write(self, folder: Path) -> Path:
        """The job file in a folder, for commands that take a path."""
        path = folder / "job.yaml"
        path.write_text(self.text, encoding="utf-8")
        return path


@dataclass(frozen=True)
class InvalidFile:
    """A job file that is refused.

    Attributes:
        text: the file.
        problems: all of them, one in a line, in the order of the file.
    """

    text: str
    problems: tuple[str, ...]

    def write(self, folder: Path) -> Path:
        """The job file in a folder, for commands that take a path."""
        path = folder / "job.yaml"
        path.write_text(self.text, encoding="utf-8")
        return path


@cache
def golden_cases() -> dict[str, JobCase]:
    """Jobs whose whole plan is kept in a folder."""
    return {path.parent.name: _golden(path.parent) for path in sorted(GOLDEN.glob("*/job.yaml"))}


@cache
def table_cases() -> dict[str, JobCase]:
    """Rows of all tables."""
    found = [case for path in sorted(TABLES.glob("*.yaml")) for case in _rows(path)]
    assert len({case.name for case in found}) == len(found), "two rows have one name"
    return {case.name: case for case in found}


@cache
def example_cases() -> dict[str, JobCase]:
    """``example-<folder>`` for its job.yaml, ``example-<folder>-<rest>`` for its job-<rest>.yaml."""
    paths = sorted((REPOSITORY / "examples").glob("*/job*.yaml"))
    named = {f"example-{path.parent.name}{path.stem.removeprefix('job')}": path for path in paths}
    return {name: JobCase(name, path.read_text(encoding="utf-8")) for name, path in named.items()}


@cache
def planned_cases() -> dict[str, JobCase]:
    """Every case with a job file of its own and a plan: of goldens, and of rows that are not refused."""
    refused = {name for name, case in table_cases().items() if "error" in case.expected}
    found = golden_cases() | table_cases()
    return {name: case for name, case in found.items() if name not in refused | example_cases().keys()}


@cache
def invalid_files() -> dict[str, InvalidFile]:
    """Job files that are refused, by name."""
    found: dict[str, InvalidFile] = {}
    for path in sorted(PROBLEMS.glob("*.yaml")):
        rows = _load(path)
        assert rows.keys().isdisjoint(found)
        found |= {name: InvalidFile(row["job"], tuple(row["problems"].splitlines())) for name, row in rows.items()}
    return found


def job_case(name: str) -> JobCase:
    """The case of a name: of a golden, of a row, or of an example."""
    return (golden_cases() | example_cases() | table_cases())[name]


def _golden(folder: Path) -> JobCase:
    environment = folder / "environment.yaml"
    changed = _load(environment) if environment.exists() else {}
    return JobCase(folder.name, (folder / "job.yaml").read_text(encoding="utf-8"), changed)


def _rows(path: Path) -> list[JobCase]:
    return [_row(name, dict(row), path.stem) for name, row in _load(path)["rows"].items()]


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
    return found


def _row(name: str, row: dict[str, Any], table: str) -> JobCase:
    row.pop("about", None)
    example = example_cases().get(name)
    text = example.text if example is not None else row.pop("text", "") or _text(row.pop("job"))
    return JobCase(name, text, row.pop("environment", {}), row, table)


def _text(job: dict[str, Any]) -> str:
    return yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=120)
