"""Rules of the Job around the TrainingInput: V01 and V23."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from encamp.spec.job import OUTPUT_ONLY
from encamp.spec.job_id import LONGEST, is_job_id, job_id_from
from encamp.spec.rules.case import INPUT

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

_MOST_LABELS = 64
_LONGEST_LABEL = 63


def check_envelope(case: Case) -> None:
    """Check every field outside the TrainingInput."""
    check_job_id(case)
    check_kind(case)
    check_labels(case)


def check_job_id(case: Case) -> None:
    """Check V01: the id's form."""
    job_id = case.job.job_id
    if job_id is not None and not is_job_id(job_id):
        case.problem(
            "V01",
            ("job_id",),
            f"{job_id[:140]!r} must be a letter, then letters, digits and _, at most {LONGEST} characters",
            f"write {job_id_from(job_id)}",
        )


def check_kind(case: Case) -> None:
    """Check that there is exactly one input, a TrainingInput."""
    for name in ("prediction_input", "explanation_input"):
        if getattr(case.job, name) is not None:
            case.problem(None, (name,), "is no training job; only trainingInput is run", "remove it")
    if not case.has_input and not case.broken(INPUT):
        case.problem(None, (INPUT,), "is missing: the file describes no training", "begin with `trainingInput:`")
    if case.input.nas_job_spec is not None:
        case.problem(None, (INPUT, "nas_job_spec"), "neural architecture search is not supported", "remove it")
    for name in OUTPUT_ONLY:
        if getattr(case.job, name) is not None:
            case.warn(None, (name,), "is written by the service and ignored here")


def check_labels(case: Case) -> None:
    """Check V23: number, keys and values of labels."""
    labels = case.job.labels or {}
    if len(labels) > _MOST_LABELS:
        case.problem("V23", ("labels",), f"has {len(labels)} labels; at most {_MOST_LABELS} are allowed")
    for key, value in labels.items():
        if not (key and _starts_label(key[0]) and _is_label(key)):
            case.problem(
                "V23",
                ("labels", key),
                f"the key {key[:80]!r} must be a lowercase letter, then lowercase letters, digits, _ and -, "
                f"at most {_LONGEST_LABEL} characters",
                f"write {key.lower()}" if _is_label(key.lower()) and key and _starts_label(key[0].lower()) else None,
            )
        if not _is_label(value):
            case.problem(
                "V23",
                ("labels", key),
                f"the value {value[:80]!r} must be at most {_LONGEST_LABEL} lowercase letters, digits, _ and -",
                f"write {value.lower()}" if _is_label(value.lower()) else None,
            )


def _starts_label(character: str) -> bool:
    return unicodedata.category(character) in {"Ll", "Lo"}


def _is_label(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and all(
        character in "_-" or unicodedata.category(character) in {"Ll", "Lo", "Nd"} for character in text
    )
