"""No grant of a job reaches an object of another, whatever places its file names.

Grants are judged as the sandbox's IAM judges requests: by the conditions that are written into their bindings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from encamp.errors import PlanError, SpecError
from encamp.plan.access.conditions import objects_of
from encamp.plan.job import plan_job
from encamp.plan.model import LocalPackage
from encamp.plan.storage import encamp_owns
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job
from encamp_sandbox.cloud.iam.conditions import Attributes, holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.model import Grant, JobPlan

ARTIFACTS = "artifacts"
IDS = st.sampled_from(["a", "ab", "a_b", "jobs", "expiry", "output", "models", "A"])
_WORDS = "jobs expiry models a ab a_b A output outputs packages logs receipt.json .. . x 2026-01-01T00:00:00Z"
PARTS = st.sampled_from(["", *_WORDS.split()])
NAMES = st.lists(PARTS, max_size=5).map("/".join)


def planned(job_id: str, block: dict[str, Any], **fields: Any) -> JobPlan:
    environment = {"name": "lab", "region": "us-central1", "artifactsBucket": ARTIFACTS}
    training = {"region": "us-central1", "runtimeVersion": "2.11", "pythonVersion": "3.7", "pythonModule": "t.task"}
    training |= {"packageUris": ["gs://packages/t.tar.gz"], **fields}
    job = parse_job({"jobId": job_id, "trainingInput": training, "encamp": block}, source="test").job
    packages = [LocalPackage("w.whl", "0" * 64, Path("w.whl")) for _ in block.get("packages", ())]
    return plan_job(job, parse_environment(environment, project="project-1", source="test"), packages=packages)


def victim(job_id: str, kind: str) -> JobPlan:
    return planned(job_id, {"storage": {"kind": kind}, "packages": ["w.whl"]})


def objects_of_job(plan: JobPlan) -> Iterator[tuple[str, str]]:
    """Every place that a job has: what its replicas and drivers write, and the note of its term."""
    own = f"jobs/{plan.job_id}/"
    for name in ("receipt.json", "trials.json", "tuning.html", "logs/manifest.json", "logs/x.log", "logs/times.jsonl"):
        yield ARTIFACTS, own + name
    for name in ("output/", "output/model/a", "packages/0/w.whl"):
        yield ARTIFACTS, own + name
    yield ARTIFACTS, f"expiry/2026-01-01T00:00:00Z/{plan.job_id}.json"
    for bucket in (plan.storage.scratch_bucket, plan.storage.results_bucket):
        if bucket is not None:
            yield bucket, "output/x"
            yield bucket, "packages/0/w.whl"


def reaches(grant: Grant, bucket: str, name: str) -> bool:
    """Whether a grant gives anything on an object, or lists its name."""
    if grant.bucket != bucket:
        return False
    condition = objects_of(grant)
    if not condition:
        return True
    on_bucket = f"projects/_/buckets/{bucket}"
    requests = [Attributes(f"{on_bucket}/objects/{name}", "storage.googleapis.com/Object")]
    requests += [
        Attributes(on_bucket, "storage.googleapis.com/Bucket", list_prefix=name[:end]) for end in range(len(name) + 1)
    ]
    return any(holds(condition, request) for request in requests)


@st.composite
def two_jobs(draw: st.DrawFn) -> tuple[JobPlan, JobPlan]:
    """A job, and one whose file names places of both."""
    one, two = draw(st.tuples(IDS, IDS).filter(lambda pair: pair[0] != pair[1]))
    other = victim(one, draw(st.sampled_from(["ENVIRONMENT", "OWN_BUCKET"])))
    mine = victim(two, "OWN_BUCKET").storage
    named = [other.storage.scratch_bucket, other.storage.results_bucket, mine.scratch_bucket, mine.results_bucket]
    buckets = st.sampled_from([ARTIFACTS] * 6 + [bucket for bucket in named if bucket] + ["data"])
    places = st.tuples(buckets, NAMES).map(lambda place: f"gs://{place[0]}/{place[1]}".rstrip("/"))
    places |= st.sampled_from([f"gs://{bucket}/{name}" for bucket, name in objects_of_job(other)])
    places |= st.sampled_from([f"gs://{ARTIFACTS}/jobs/{two}/output/{rest}" for rest in ("", "a", "a/b")])
    fields: dict[str, Any] = {}
    block: dict[str, Any] = {}
    if draw(st.booleans()):
        fields["packageUris"] = [f"{uri}/{index}.whl" for index, uri in enumerate(draw(st.lists(places, min_size=1)))]
        fields["packageUris"] += draw(st.lists(places, max_size=1))
    if draw(st.booleans()):
        block["packages"] = ["w.whl"]
    if draw(st.booleans()):
        block["stagingBucket"] = f"gs://{draw(buckets)}"
    if draw(st.booleans()):
        block["mounts"] = [{"bucket": draw(buckets), "write": draw(st.booleans())}]
    where = draw(st.sampled_from(["jobDir", "GIVEN_BUCKET", "ENVIRONMENT", "OWN_BUCKET", None]))
    if where == "jobDir":
        fields["jobDir"] = draw(places)
    elif where == "GIVEN_BUCKET":
        prefix = draw(NAMES)
        block["storage"] = {"kind": where, "bucket": draw(buckets), **({"prefix": prefix} if prefix else {})}
    elif where is not None:
        block["storage"] = {"kind": where}
    try:
        return other, planned(two, block, **fields)
    except (PlanError, SpecError) as error:
        event(type(error).__name__)
        assume(False)
        raise


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(two_jobs())
def test_no_grant_of_a_job_reaches_an_object_of_another(jobs: tuple[JobPlan, JobPlan]) -> None:
    event("planned")
    for one, two in (jobs, jobs[::-1]):
        for grant in one.identity.grants:
            reached = [place for place in objects_of_job(two) if reaches(grant, *place)]
            assert not reached, (grant, reached)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(two_jobs())
def test_a_job_writes_neither_its_logs_nor_its_receipt(jobs: tuple[JobPlan, JobPlan]) -> None:
    for plan in jobs:
        kept = [place for place in objects_of_job(plan) if place[0] == ARTIFACTS and "/output/" not in place[1]]
        written = [grant for grant in plan.identity.grants if not grant.role.endswith("objectViewer")]
        assert not [(grant, place) for grant in written for place in kept if reaches(grant, *place)]
        read = [place for place in kept if "/packages/" not in place[1]]
        assert not [(grant, place) for grant in plan.identity.grants for place in read if reaches(grant, *place)]
        if encamp_owns(plan.storage) and plan.storage.folder is not None:
            assert any(reaches(grant, *plan.storage.folder) for grant in written)
