"""A job's summary has one form in every place that holds it, and earlier forms of it are still read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.job import plan_job
from encamp.plan.summary import JobSummary, job_summary
from encamp.run.store.intent import Intent, found_intent, planned_intent, with_job_set
from encamp.run.store.outputs import EnvironmentOutputs
from encamp.run.store.records import Records
from encamp.run.store.tables import open_database
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.plan.model import JobPlan

NAME = "digits-bdwpqk2wfbvu11gq"
EMAIL = f"{NAME}@my-project.iam.gserviceaccount.com"
LABELS = {"encamp-owner": "encamp", "encamp-environment": "lab", "encamp-job": NAME}
OUTPUTS = EnvironmentOutputs("", "encamp", "us-central1", "my-project", "lab-artifacts", "encamp-jobs")
CLUSTER = "projects/my-project/locations/us-central1/clusters/encamp"
NOTICES = [{"target": "team", "states": ["SUCCEEDED", "FAILED", "CANCELLED"]}]
JOB: dict[str, Any] = {
    "jobId": "digits",
    "trainingInput": {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": "1",
        "masterConfig": {"imageUri": "gcr.io/p/t"},
        "packageUris": ["gs://team-code/t.tar.gz"],
        "pythonModule": "t.task",
        "jobDir": "gs://team-results/out",
    },
    "encamp": {"identity": {"mode": "SERVICE_ACCOUNT"}},
}
#: The journal's entry of this job as encamp wrote it before the journal kept summaries, but for its list of resources.
OLD_ENTRY: dict[str, Any] = {
    "job_id": "digits",
    "name": NAME,
    "environment": "lab",
    "stack": f"job-{NAME}",
    "folder": "/home/ana/jobs/x",
    "project": "my-project",
    "cluster": CLUSTER,
    "namespace": "encamp-jobs",
    "bucket": "lab-artifacts",
    "prefix": "jobs/digits/",
    "account": EMAIL,
    "labels": LABELS,
    "deadline": 1000000.0,
    "max_running_seconds": 604800,
    "max_wait_seconds": None,
    "replicas": ["master-replica-0", "worker-replica-0"],
    "machines": {"master": "n1-standard-4", "worker": "n1-standard-4"},
    "source": {"commit": "1"},
    "images": {"master": "gcr.io/p/t", "worker": "gcr.io/p/t"},
    "hourly": {"n1-standard-4": 0.213287},
    "prices_of": "prices of us-central1, 2026-07-30",
    "buckets": ["team-code", "team-results"],
    "job_dir": "gs://team-results/out",
    "results_bucket": None,
    "results_days": None,
    "job": JOB,
    "given_account": None,
    "started_by": {"user": "ana", "host": "laptop"},
    "shared_pools": [],
    "packages": [],
    "study": None,
    "notices": NOTICES,
    "specHash": "abc",
}
#: The outputs of the same job's stack, and what its JobSet carried, at that time.
OLD_OUTPUTS: dict[str, Any] = {
    "jobId": "digits",
    "name": NAME,
    "namespace": "encamp-jobs",
    "jobSet": NAME,
    "artifactsBucket": "lab-artifacts",
    "prefix": "jobs/digits/",
    "nodePools": [f"{NAME}-n1-standard-4"],
    "replicas": ["master-replica-0", "worker-replica-0"],
    "machines": {"master": "n1-standard-4", "worker": "n1-standard-4"},
    "hourly": {"n1-standard-4": 0.213287},
    "pricesOf": "prices of us-central1, 2026-07-30",
    "grantedBuckets": ["team-code", "team-results"],
    "identityMode": "SERVICE_ACCOUNT",
    "givenAccount": None,
    "jobDir": "gs://team-results/out",
    "resultsBucket": None,
    "resultsDays": None,
    "maxRunningSeconds": 604800,
    "maxWaitSeconds": None,
    "labels": LABELS,
    "notices": NOTICES,
}


@pytest.fixture(name="plan", scope="module")
def _plan() -> JobPlan:
    notices = {"targets": [{"name": "team", "everyJob": True}]}
    written = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "notices": notices}
    lab = parse_environment(written, project="my-project", source="test")
    return plan_job(parse_job(JOB, source="test").job, lab)


@pytest.fixture(name="begun", scope="module")
def _begun(plan: JobPlan) -> Intent:
    return planned_intent(
        plan,
        OUTPUTS,
        environment_stack="lab",
        stack=f"job-{NAME}",
        folder="/home/ana/jobs/x",
        deadline=1000000.0,
        spec_hash="abc",
        source={"commit": "1"},
        job=JOB,
        started_by={"user": "ana", "host": "laptop"},
    )


@pytest.fixture(name="journal")
def _journal(tmp_path: Path) -> Iterator[Records]:
    records = Records(open_database(None, tmp_path))
    yield records
    records.close()


def recorded(journal: Records, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an intent as it comes back from the journal."""
    journal.release(journal.begin("digits", NAME, entry))
    record = journal.record("digits")
    assert record is not None
    assert record.intent is not None
    return record.intent


def test_state_outputs_job_set_and_journal_hold_a_summary_by_the_same_keys(plan: JobPlan, begun: Intent) -> None:
    written = job_summary(plan).to_json()
    assert json.loads(json.dumps(written)) == written
    assert written.items() <= begun.to_json().items()
    assert JobSummary.read(written) == JobSummary.read(begun.to_json()) == job_summary(plan)
    kept_by_the_engine = {name: value for name, value in written.items() if value is not None}
    assert JobSummary.read(kept_by_the_engine) == job_summary(plan)


def test_an_intent_comes_back_from_the_journal_as_it_was(journal: Records, begun: Intent) -> None:
    assert Intent.read(recorded(journal, begun.to_json())) == begun


def test_a_later_versions_fields_are_left_out(begun: Intent) -> None:
    assert Intent.read({**begun.to_json(), "moon": 1}) == begun


def test_an_entry_of_the_old_form_is_the_intent_that_is_written_today(journal: Records, begun: Intent) -> None:
    resources = begun.to_json()["resources"]
    old = recorded(journal, {**OLD_ENTRY, "resources": resources})
    assert Intent.read(old) == begun
    assert begun.place.account == EMAIL
    assert old["startedBy"] == {"user": "ana", "host": "laptop"}


@pytest.mark.parametrize(
    ("accounts", "mode", "account"),
    [
        ({"account": EMAIL}, "SERVICE_ACCOUNT", EMAIL),
        ({"account": None}, "DIRECT", None),
        ({"account": None, "given_account": "t@p.iam.gserviceaccount.com"}, "SERVICE_ACCOUNT", None),
    ],
)
def test_an_old_entry_says_whose_account_the_replicas_have(
    journal: Records, accounts: dict[str, Any], mode: str, account: str | None
) -> None:
    found = Intent.read(recorded(journal, {**OLD_ENTRY, **accounts}))
    assert found is not None
    assert (found.identity_mode, found.place.account) == (mode, account)


def test_an_old_entry_without_what_later_ones_added_is_read(journal: Records) -> None:
    late = ("images", "hourly", "prices_of", "buckets", "given_account", "started_by", "shared_pools", "packages")
    first = {key: value for key, value in OLD_ENTRY.items() if key not in {*late, "study", "notices", "job"}}
    found = Intent.read(recorded(journal, first))
    assert found is not None
    assert (found.granted_buckets, found.notices, found.job, found.node_pools) == ((), (), None, ())


def test_outputs_of_an_older_stack_are_read(plan: JobPlan) -> None:
    found = JobSummary.read(OLD_OUTPUTS)
    assert found == job_summary(plan).model_copy(update={"scratch_bucket": None})


def test_outputs_of_the_first_stacks_need_their_job_set() -> None:
    known = ("jobId", "name", "namespace", "jobSet", "artifactsBucket", "prefix", "labels")
    summary = JobSummary.read({key: OLD_OUTPUTS[key] for key in known})
    assert summary is not None
    found = found_intent(summary, OUTPUTS, environment_stack="lab", stack="mine", deadline=1.0)
    assert (found.replicas, found.cluster, found.place.account) == ((), CLUSTER, EMAIL)
    pod = {"template": {"spec": {"containers": [{"image": "gcr.io/p/t"}]}}}
    group = {"name": "worker", "template": {"spec": {"completions": 2, **pod}}}
    told = with_job_set(found, {"spec": {"replicatedJobs": [group]}})
    assert (told.replicas, told.images) == (("worker-replica-0", "worker-replica-1"), {"worker": "gcr.io/p/t"})


@pytest.mark.parametrize(
    "data", [{}, {"jobId": "digits"}, {**OLD_OUTPUTS, "labels": "x"}, {**OLD_OUTPUTS, "replicas": 3}]
)
def test_what_is_no_summary_or_a_damaged_one_is_none(data: dict[str, Any]) -> None:
    assert JobSummary.read(data) is None
