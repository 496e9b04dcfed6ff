from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import PlanError
from encamp.plan.names import (
    LONGEST_NAME,
    LONGEST_POOL,
    bounded,
    former_name,
    kept_name,
    log_name,
    pool_name,
    pool_shape,
    replica_host,
    results_bucket,
    scratch_bucket,
    short_name,
)
from encamp.spec.roles import Role

JOB_IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,127}", fullmatch=True)
PROJECTS = st.from_regex(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", fullmatch=True)


@given(PROJECTS, JOB_IDS)
def test_names_keep_every_limit(project: str, job_id: str) -> None:
    name = short_name(project, "sandbox", job_id)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert 6 <= len(name) <= LONGEST_NAME  # a service account's id has 6 to 30 characters
    bucket = scratch_bucket(project, "sandbox", job_id, name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket)
    assert "google" not in bucket
    pod = f"{replica_host(name, Role.EVALUATOR, 99_999).partition('.')[0]}-abcde"
    assert len(pod) <= 63
    for shape in ("n1-standard-4", "n1-standard-96-t4-4-pd-standard-65536gb-spot", "ct6e-standard-4t-2x4"):
        pool = pool_name(name, shape)
        assert len(pool) <= LONGEST_POOL
        assert f"-{name.rpartition('-')[2]}-" in pool
        assert pool_shape(name, pool) == (shape if len(shape) <= 20 else pool.rpartition(f"{name}-")[2])


@given(JOB_IDS, JOB_IDS)
def test_different_jobs_have_different_names(first: str, second: str) -> None:
    names = {short_name("my-project", "lab", job_id) for job_id in (first, second)}
    assert len(names) == len({first, second})


def test_no_two_of_very_many_names_are_the_same() -> None:
    """32 bits of a hash, as names had before, gave a pair in a tenth of a second."""
    ids = [f"job_{number}" for number in range(200_000)]
    before = Counter(former_name("my-project", "lab", job_id).rpartition("-")[2] for job_id in ids)
    assert max(before.values()) > 1
    now = Counter(short_name("my-project", "lab", job_id).rpartition("-")[2] for job_id in ids)
    assert max(now.values()) == 1


@given(PROJECTS, JOB_IDS)
def test_names_carry_as_much_of_the_hash_as_they_have_room_for(project: str, job_id: str) -> None:
    name = short_name(project, "lab", job_id)
    digits = re.compile(r"[a-hjkmnp-z1-9]{16}")
    assert digits.fullmatch(name.rpartition("-")[2])
    for bucket, use in ((scratch_bucket, "scratch"), (results_bucket, "results")):
        first, _, second = bucket(project, "lab", job_id, name).partition(f"-{use}-")
        assert digits.fullmatch(first[-16:])
        assert digits.fullmatch(second)
        # 160 bits of one hash, none of them twice.
        assert first[-16:] != second


@given(PROJECTS, JOB_IDS)
def test_a_job_that_exists_keeps_its_name_and_buckets(project: str, job_id: str) -> None:
    former = former_name(project, "lab", job_id)
    assert kept_name(project, "lab", job_id, former) == former
    digest = hashlib.sha256(f"{project}\0lab\0{job_id}".encode()).hexdigest()
    assert former.endswith(f"-{digest[:8]}")
    assert scratch_bucket(project, "lab", job_id, former).endswith(f"-scratch-{digest[8:16]}")
    assert kept_name(project, "lab", job_id, None) == short_name(project, "lab", job_id)


@pytest.mark.parametrize("given_name", ["", "mine", short_name("my-project", "lab", "other")])
def test_a_job_takes_no_other_jobs_name(given_name: str) -> None:
    with pytest.raises(PlanError, match="is no name of the job"):
        kept_name("my-project", "lab", "job", given_name)


def test_case_and_underscores_are_not_lost() -> None:
    names = {short_name("p-12345", "lab", job_id) for job_id in ("A_b", "a_b", "a__b", "ab")}
    assert len(names) == 4


def test_environment_and_project_are_part_of_a_name() -> None:
    assert len({short_name(p, e, "j") for p in ("p1", "p2") for e in ("a", "b")}) == 4


@pytest.mark.parametrize("job_id", ["google_train", "Goog", "G00GLE", "x_go0gle_x"])
def test_buckets_are_not_called_like_the_cloud(job_id: str) -> None:
    assert not re.search(
        "g[o0]{2}g", scratch_bucket("my-project", "lab", job_id, short_name("my-project", "lab", job_id))
    )


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
