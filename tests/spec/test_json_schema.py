"""The JSON Schema of job files: equal to the committed one, and of one mind with the loader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from tests.job_cases import golden_cases, invalid_files, job_case, table_cases

from encamp.errors import SpecError
from encamp.spec.field_docs import HIDDEN, docstrings, inner_model, job_fields
from encamp.spec.job import TrainingJobSpec
from encamp.spec.job_file import examine_job
from encamp.spec.json_schema import job_schema
from encamp.spec.loading import Document, parse_document
from encamp.spec.reference import with_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel
    from tests.job_cases import InvalidFile

ROOT = Path(__file__).parent.parent.parent
SCHEMA = ROOT / "docs" / "job.schema.json"
PAGE = ROOT / "docs" / "job-files.md"
EXAMPLES = sorted((ROOT / "examples").glob("*/job*.yaml"))
LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)")

VALIDATOR = Draft202012Validator(job_schema())


def mistakes(data: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(data)]


def test_the_committed_schema_is_what_the_models_say(*, rewrite_goldens: bool) -> None:
    made = json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"
    if rewrite_goldens:
        SCHEMA.write_text(made, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == made
    Draft202012Validator.check_schema(json.loads(made))


def test_the_page_of_job_files_is_what_models_and_rules_say(*, rewrite_goldens: bool) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if rewrite_goldens:
        PAGE.write_text(with_reference(page), encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
    assert page == with_reference(page)
    for path in job_fields():
        assert f"`{path.rpartition('.')[2]}`" in page, path


def test_the_page_shows_jobs_that_are_right() -> None:
    blocks = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    jobs = [block for block in blocks if "region" in block]
    assert len(jobs) == 4
    for block in jobs:
        document = parse_document(block.encode(), source="docs/job-files.md")
        assert examine_job(document)[1] == []
        assert mistakes(document.data) == []


@pytest.mark.parametrize("name", [*golden_cases(), *table_cases()])
def test_what_the_loader_takes_the_schema_takes(name: str) -> None:
    document = job_case(name).document()
    assert examine_job(document)[1] == []
    assert mistakes(document.data) == []


def structural(file: InvalidFile) -> bool:
    """Whether a file has a problem that no rule between fields found: an unknown field or a wrong kind."""
    kind = re.compile(r"^\d+ \S*: (\[\w+\] )?(unknown field|must be .*, not (the|a|empty)\b)")
    return any(kind.search(problem) for problem in file.problems)


def readable() -> Iterator[str]:
    for name, file in invalid_files().items():
        try:
            parse_document(file.text.encode(), source="job.yaml")
        except SpecError:
            continue
        if structural(file):
            yield name


@pytest.mark.parametrize("name", list(readable()))
def test_unknown_fields_and_wrong_kinds_are_refused_by_both(name: str) -> None:
    assert mistakes(parse_document(invalid_files()[name].text.encode(), source="job.yaml").data)


TRAINING: dict[str, Any] = {"scaleTier": "BASIC", "region": "us-central1"}
SNAKE: dict[str, Any] = {
    "scale_tier": "CUSTOM",
    "worker_count": "2",
    "master_config": {"image_uri": "i", "disk_config": {}},
}
BLOCK = {"machines": {"parameter_server": {"boot_disk": {"size_gb": "20"}}}, "image_streaming": True}


@pytest.mark.parametrize(
    "data",
    [
        {"trainingInput": TRAINING},
        {"training_input": SNAKE, "encamp": BLOCK},
        {"jobId": "a", "trainingInput": TRAINING, "state": "QUEUED", "create_time": "now", "labels": {"a": "b"}},
        TRAINING | {"encamp": BLOCK},
        SNAKE | {"job_id": "a"},
        {"trainingInput": TRAINING | {"workerCount": 3, "jobDir": None}, "predictionInput": None},
        {"trainingInput": {"hyperparameters": {"params": [{"minValue": 1, "max_value": 2.5}]}}},
    ],
    ids=str,
)
def test_every_form_of_a_file_is_taken_by_both(data: dict[str, Any]) -> None:
    assert mistakes(data) == []
    problems = examine_job(Document("test", data))[1]
    assert [problem for problem in problems if "unknown" in problem.message or "must be a" in problem.message] == []


@pytest.mark.parametrize(
    "data",
    [
        {"trainingInput": TRAINING, "region": "us-central1"},
        {"trainingInput": TRAINING | {"wokerCount": 1}},
        {"trainingInput": TRAINING | {"scaleTier": "STANDARD"}},
        {"trainingInput": TRAINING | {"scaleTier": "basic"}},
        {"trainingInput": TRAINING | {"workerCount": "two"}},
        {"trainingInput": TRAINING | {"workerCount": 1.5}},
        {"trainingInput": TRAINING | {"runtimeVersion": 2.1}},
        {"trainingInput": TRAINING | {"enableWebAccess": "yes"}},
        {"trainingInput": TRAINING | {"args": [1]}},
        {"trainingInput": TRAINING, "labels": {"a": 1}},
        {"trainingInput": TRAINING, "encamp": {"budget": {"usd": "25"}}},
        {"trainingInput": TRAINING, "encamp": {"machines": {"ps": {}}}},
        {"trainingInput": TRAINING, "predictionInput": {}},
        {"trainingInput": TRAINING | {"nasJobSpec": {}}},
        {"trainingInput": None},
        {"scaleTier": "BASIC", "unknown": 1},
    ],
    ids=str,
)
def test_what_no_field_takes_is_refused_by_both(data: dict[str, Any]) -> None:
    assert mistakes(data)
    assert examine_job(Document("test", data))[1]


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for info in model.model_fields.values():
        inner = inner_model(info)
        if inner is not None:
            yield from models(inner)


def test_every_field_says_what_it_means() -> None:
    for model in models(TrainingJobSpec):
        assert docstrings(model).keys() == model.model_fields.keys()
    definitions = job_schema()["$defs"]
    job = definitions["TrainingJobSpec"]
    assert job["properties"].keys() == {"jobId", "trainingInput", "labels", "encamp"}
    assert not any(name in json.dumps(job["properties"]) for name in HIDDEN)
    for definition in definitions.values():
        for name, field in definition.get("properties", {}).items():
            assert "description" in field or "$ref" in field, name


def test_defaults_are_stated() -> None:
    training = job_schema()["$defs"]["TrainingInputSpec"]["properties"]
    assert training["scaleTier"]["default"] == "BASIC"
    assert training["workerCount"]["default"] == 0
    assert "default" not in training["region"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_begins_with_its_schema(path: Path) -> None:
    found = LINE.fullmatch(path.read_text(encoding="utf-8").splitlines()[0])
    assert found is not None
    assert (path.parent / found[1]).resolve() == SCHEMA
