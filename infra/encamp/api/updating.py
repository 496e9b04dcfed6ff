"""The request of a patch of a Job: other labels, and only if the job is what the caller had read."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_snake

from encamp.api.errors import wrong_fields
from encamp.errors import Problem
from encamp.spec.job import TrainingJobSpec
from encamp.spec.loading import Document
from encamp.spec.reading import Reading, read_model
from encamp.spec.rules.case import Case
from encamp.spec.rules.envelope import check_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

_MASKED: Final = frozenset({"labels", "etag"})
_NAMES: Final = frozenset(name for key, info in TrainingJobSpec.model_fields.items() for name in (key, info.alias))
_LONGEST: Final = 80
_READ: Final = "send back the one that get answered"


def asked_labels(mask: str | None, body: Mapping[str, Any]) -> tuple[dict[str, str] | None, str | None]:
    """Return the new labels, None if they stay, and the etag of what the caller had read, None if they sent none.

    Other fields of a Job may be in the body; the mask says which of them are meant.

    Raises:
        ApiError: INVALID_ARGUMENT, with every field that is wrong.
    """
    masked = {to_snake(part.strip()) for part in (mask or "").split(",")} - {""}
    problems = [
        Problem(str(name)[:_LONGEST], None, None, "is no field of a Job", "leave it out")
        for name in sorted(body.keys() - _NAMES)
    ]
    if not masked:
        missing = "is missing: it names what changes"
        problems.append(Problem("updateMask", None, None, missing, "write updateMask=labels"))
    problems += [
        Problem("updateMask", None, None, f"{name[:_LONGEST]} cannot be changed", "only labels and etag can")
        for name in sorted(masked - _MASKED)
    ]
    etag = body.get("etag")
    if etag is not None and not _is_base64(etag):
        problems.append(Problem("etag", None, None, "is no etag: it must be base64 text", _READ))
    elif etag is None and "etag" in masked:
        problems.append(Problem("etag", None, None, "is missing, and the mask names it", _READ))
    labels = _labels(body, problems) if "labels" in masked else None
    if problems:
        raise wrong_fields(problems)
    return labels, etag or None


def _labels(body: Mapping[str, Any], problems: list[Problem]) -> dict[str, str]:
    given = body.get("labels")
    data = {"labels": given if given is not None else {}}
    reading = Reading(Document("the request", data))
    case = Case(read_model(TrainingJobSpec, data, reading), reading)
    check_labels(case)
    problems += reading.problems
    return dict(case.job.labels or {})


def _is_base64(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True
