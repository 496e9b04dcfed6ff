from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.plan.model import Role
from encamp.plan.names import (
    LONGEST_NAME,
    LONGEST_POOL,
    bounded,
    log_name,
    pool_name,
    replica_host,
    scratch_bucket,
    short_name,
)

JOB_IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,127}", fullmatch=True)
PROJECTS = st.from_regex(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", fullmatch=True)


@given(PROJECTS, JOB_IDS)
def test_names_keep_every_limit(project: str, job_id: str) -> None:
    name = short_name(project, "sandbox", job_id)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert 6 <= len(name) <= LONGEST_NAME  # a service account's id has 6 to 30 characters
    bucket = scratch_bucket(project, "sandbox", job_id)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket)
    assert "google" not in bucket
    pod = f"{replica_host(name, Role.EVALUATOR, 99_999).partition('.')[0]}-abcde"
    assert len(pod) <= 63
    pool = pool_name(name, "n1-standard-96-t4-4-pd-standard-65536gb-spot")
    assert len(pool) <= LONGEST_POOL
    assert pool.startswith(name)


@given(JOB_IDS, JOB_IDS)
def test_different_jobs_have_different_names(first: str, second: str) -> None:
    names = {short_name("my-project", "lab", job_id) for job_id in (first, second)}
    assert len(names) == len({first, second})


def test_case_and_underscores_are_not_lost() -> None:
    names = {short_name("p-12345", "lab", job_id) for job_id in ("A_b", "a_b", "a__b", "ab")}
    assert len(names) == 4


def test_environment_and_project_are_part_of_a_name() -> None:
    assert len({short_name(p, e, "j") for p in ("p1", "p2") for e in ("a", "b")}) == 4


@pytest.mark.parametrize("job_id", ["google_train", "Goog", "G00GLE", "x_go0gle_x"])
def test_buckets_are_not_called_like_the_cloud(job_id: str) -> None:
    assert not re.search("g[o0]{2}g", scratch_bucket("my-project", "lab", job_id))


@given(st.text(max_size=80), st.integers(12, 40))
def test_any_text_is_bounded(text: str, longest: int) -> None:
    assert len(bounded(text, longest, "0123456789abcdef")) <= longest


def test_log_names_are_ai_platforms() -> None:
    assert [log_name(role, 2) for role in Role] == [
        "master-replica-2",
        "worker-replica-2",
        "ps-replica-2",
        "evaluator-replica-2",
    ]
