from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import UsageError
from encamp.spec.job_file import parse_job
from encamp.spec.job_id import checked_job_id, is_job_id, job_id_from

JOB = {"trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}}


@given(st.text(max_size=300), st.from_regex(r"[A-Za-z0-9_]{0,40}", fullmatch=True))
def test_any_text_becomes_an_id_that_ends_in_its_suffix(stem: str, suffix: str) -> None:
    made = job_id_from(stem, suffix=suffix)
    assert is_job_id(made)
    assert made.endswith(suffix)


def test_the_callers_id_wins_then_the_files_then_its_name() -> None:
    own = parse_job(JOB | {"jobId": "own"}, source="some/train-mnist.yaml")
    assert own.named("given").job.job_id == "given"
    assert own.named().job.job_id == "own"
    bare = parse_job(JOB, source="some/train-mnist.yaml")
    assert bare.named(suffix="20260101_120000").job.job_id == "train_mnist_20260101_120000"


def test_a_wrong_id_is_refused_with_a_right_one() -> None:
    with pytest.raises(UsageError, match="job_1_bad"):
        checked_job_id("1 bad")
