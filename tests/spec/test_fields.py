"""Declarations of fields: each default, rule and flag of a job file's fields holds, and reaches whoever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic.alias_generators import to_snake

from encamp.api.schemas import schemas
from encamp.cli.job_flags import job_flags
from encamp.duration import Duration
from encamp.spec.encamp import LOCAL_FIELDS, BootDiskSpec
from encamp.spec.field_docs import inner_model
from encamp.spec.fields import Double, DurationText, Int32, Int64, declaration
from encamp.spec.job import OUTPUT_ONLY, TrainingJobSpec
from encamp.spec.roles import Role
from encamp.spec.rules.registry import rules, rules_about
from encamp.spec.training import DiskConfig, ScaleTier, Scheduling, TrainingInputSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


def walked(
    model: type[BaseModel] = TrainingJobSpec, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, type[BaseModel], str, FieldInfo]]:
    """Every field of a job file: its path in camelCase, its model, its name and its own data."""
    for name, info in model.model_fields.items():
        here = (*path, info.alias or name)
        yield ".".join(here), model, name, info
        inner = inner_model(info)
        if inner is not None:
            yield from walked(inner, here)


FIELDS = list(walked())


def test_a_default_is_a_value_that_a_file_could_have_written() -> None:
    for path, model, name, info in FIELDS:
        said = declaration(info)
        if said.default is not None:
            assert getattr(model.model_validate({name: said.written_default}), name) == said.default, path


def test_the_rule_of_a_field_is_one_that_names_the_field() -> None:
    for path, _, _, info in FIELDS:
        rule = declaration(info).rule
        assert rule is None or rules()[rule] in rules_about(path), path


def test_a_missing_value_means_what_its_field_declares() -> None:
    assert Scheduling().or_default("max_running_time") == Duration.of(604_800)
    assert Scheduling(max_running_time=Duration.of(60)).or_default("max_running_time") == Duration.of(60)
    assert TrainingInputSpec().or_default("scale_tier") is ScaleTier.BASIC
    # One default for both ways to ask for a disk: plans know one.
    assert BootDiskSpec().or_default("size_gb") == DiskConfig().or_default("boot_disk_size_gb") == 100


def described(model: type[BaseModel], info: FieldInfo, name: str) -> dict[str, Any]:
    """A field in the schemas of the API."""
    names = {"TrainingJobSpec": "Job", "TrainingInputSpec": "TrainingInput"}
    found: dict[str, Any] = schemas()[names.get(model.__name__, model.__name__)]["properties"][info.alias or name]
    return found


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (DurationText, {"type": "string", "format": "google-duration"}),
        (Int32, {"type": "integer", "format": "int32"}),
        (Int64, {"type": ["string", "integer"], "format": "int64"}),
        (Double, {"type": "number", "format": "double"}),
    ],
)
def test_the_type_of_a_field_is_its_form_in_the_apis_schema(kind: Any, form: dict[str, Any]) -> None:
    found = [described(model, info, name) for _, model, name, info in FIELDS if (kind | None) == info.annotation]
    assert found
    for one in found:
        assert {key: one[key] for key in form} == form


def test_the_apis_schema_has_every_field_that_a_request_may_have() -> None:
    for path, model, name, info in FIELDS:
        said = declaration(info)
        if not (said.local or said.refused or said.output_only):
            assert described(model, info, name)["description"], path


def test_fields_of_this_machine_are_no_part_of_requests() -> None:
    assert LOCAL_FIELDS == ("package_path", "packages")
    assert {"packagePath", "packages"} & schemas()["EncampSpec"]["properties"].keys() == set()


def test_what_the_service_writes_is_declared_so() -> None:
    assert (
        tuple(
            to_snake(name)
            for name in (
                [
                    "trainingOutput",
                    "predictionOutput",
                    "createTime",
                    "startTime",
                    "endTime",
                    "state",
                    "errorMessage",
                    "jobPosition",
                    "etag",
                ]
            )
        )
        == OUTPUT_ONLY
    )


def test_a_role_has_its_own_flags_of_its_own_fields() -> None:
    flags = {flag.name: flag for flag in job_flags()}
    for role in Role:
        config = ("trainingInput", f"{role.key}Config")
        assert flags[f"--{role.flag}-machine-type"].path == ("trainingInput", f"{role.key}Type")
        assert flags[f"--{role.flag}-accelerator"].path == (*config, "acceleratorConfig")
        assert flags[f"--{role.flag}-image-uri"].path == (*config, "imageUri")
        assert (f"--{role.flag}-count" in flags) == (role.count_field is not None)
    assert flags["--parameter-server-image-uri"].help == "Container image of the parameter servers."


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("--scale-tier", "basic-gpu", "BASIC_GPU"),
        ("--use-chief-in-tf-config", "true", True),
        ("--labels", "a=b,c=d", {"a": "b", "c": "d"}),
        ("--worker-accelerator", "type=nvidia-tesla-t4,count=2", {"type": "NVIDIA_TESLA_T4", "count": "2"}),
        ("--keep-output", "true", {"kind": "ENVIRONMENT"}),
        ("--enable-web-access", "true", True),
        ("--max-trials", "3", "3"),
        ("--region", "us-central1", "us-central1"),
    ],
)
def test_a_flags_text_is_read_by_the_type_of_its_field(name: str, text: str, value: object) -> None:
    (flag,) = (flag for flag in job_flags() if flag.name == name)
    assert flag.read(text) == value
