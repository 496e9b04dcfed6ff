"""Whatever stands in a file: rules never raise, and schema and loader are of one mind about forms."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from encamp.spec.encamp import EncampSpec
from encamp.spec.field_docs import HIDDEN, inner_model
from encamp.spec.fields import Double, Flag, Int64
from encamp.spec.job_file import examine_job
from encamp.spec.json_schema import job_schema
from encamp.spec.loading import Document
from encamp.spec.training import TrainingInputSpec

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

VALIDATOR = Draft202012Validator(job_schema())
WORDS = st.sampled_from(
    [
        "", "x", "gs://abc/d.whl", "a.whl", "../a", "n1-standard-4", "g2-standard-12", "ct6e-standard-8t", "standard",
        "cloud_tpu", "2x4", "4x4", "604800s", "1e9s", "2.11", "3.7", "us-central1", "pandas>=2", "-r x",
        "\u2028", "ü" * 600, "projects/1/global/networks/N", "mine", "trainer", "trainer.task", "gcr.io/p/i",
    ]
)  # fmt: skip
NUMBERS = st.one_of(st.integers(-2, 20), st.sampled_from([2**63, -(2**63), "3", "-1", "x", 1.5, "1.0", 100]))
JUNK = st.one_of(
    st.none(), st.booleans(), NUMBERS, WORDS, st.just([]), st.just({}), st.lists(WORDS, max_size=2), st.just({"a": 1})
)


def values(info: FieldInfo) -> st.SearchStrategy[Any]:
    """Mostly what the field takes, sometimes anything."""
    inner = inner_model(info)
    annotation = next((part for part in get_args(info.annotation) if part is not type(None)), info.annotation)
    if inner is not None:
        right: st.SearchStrategy[Any] = fields_of(inner)
        if get_origin(annotation) is list:
            right = st.lists(right, max_size=2)
    elif isinstance(annotation, type) and issubclass(annotation, StrEnum):
        right = st.sampled_from([each.value for each in annotation])
    elif annotation == Int64:
        right = NUMBERS
    elif annotation == Double:
        right = st.floats(-1, 100, allow_nan=False) | st.integers(-1, 10)
    elif annotation in {Flag, bool}:
        right = st.booleans()
    elif get_origin(annotation) is list:
        right = st.lists(WORDS if get_args(annotation)[0] != Double else st.integers(0, 5), max_size=3)
    else:
        right = WORDS
    return st.one_of(right, right, right, right, JUNK)


def fields_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    known = {info.alias or name: info for name, info in model.model_fields.items() if name not in HIDDEN}
    snake = {info.alias or name: name for name, info in model.model_fields.items()}

    @st.composite
    def draw_fields(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=6, unique=True))
        spelled = snake if draw(st.integers(0, 3)) == 0 else {name: name for name in known}
        found = {spelled[name]: draw(values(known[name])) for name in chosen}
        return found | ({"unknownField": 1} if draw(st.integers(0, 19)) == 0 else {})

    return draw_fields()


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    training = draw(fields_of(TrainingInputSpec))
    training |= {"scaleTier": "CUSTOM"} if draw(st.booleans()) and "scale_tier" not in training else {}
    data = {"trainingInput": training} if draw(st.integers(0, 3)) else training
    return data | ({"encamp": draw(fields_of(EncampSpec))} if draw(st.integers(0, 4)) else {})


@pytest.mark.slow
@given(data=files())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_rules_never_raise_and_what_the_schema_refuses_the_loader_refuses(data: dict[str, Any]) -> None:
    _, problems, warnings = examine_job(Document("test", data))
    assert all(problem.message and problem.path for problem in [*problems, *warnings])
    if not problems:
        assert VALIDATOR.is_valid(data)
    if not VALIDATOR.is_valid(data):
        assert problems
