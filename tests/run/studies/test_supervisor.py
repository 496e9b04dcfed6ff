"""A study on a fake API server and a fake Google: what the driver asks, writes and gives up."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.job_cases import job_case
from tests.plan.planned import plan_case

from encamp.cloud.storage import Storage
from encamp.errors import UsageError
from encamp.plan.study import StudyPlan
from encamp.run.history.earlier_trials import earlier_trials
from encamp.run.logs.stream import LogStreams
from encamp.run.store.intent import Intent
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State
from encamp.run.store.study_results import StudyResults, keep_trials
from encamp.run.store.trial_journal import replicas_of, trials_of
from encamp.run.studies.closing import close_trials, keep_study
from encamp.run.studies.supervisor import StudySupervisor, Supervised
from encamp.run.watch.supervise import Limits, Watch
from encamp.spec.tuning import Algorithm
from encamp.tuning.model import Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.run.store.records import Lease

pytestmark = pytest.mark.slow

STUDY = plan_case(job_case("tuning-distributed")).manifests.study or {}
NAME = STUDY["metadata"]["name"]
LABELS = STUDY["metadata"]["labels"]
ROLES = ("master", "worker")


def _data(key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STUDY["data"][key])
    return found


def _template() -> dict[str, Any]:
    """Of one master and one worker a trial."""
    found = _data("trial.json")
    groups = [group for group in found["spec"]["replicatedJobs"] if group["name"] in ROLES]
    for group in groups:
        group["template"]["spec"].update(completions=1, parallelism=1)
    found["spec"]["replicatedJobs"] = groups
    return found


PLAN = replace(
    StudyPlan.from_json(_data("study.json")),
    algorithm=Algorithm.RANDOM_SEARCH,
    max_trials=4,
    max_parallel_trials=2,
    max_failed_trials=0,
    early_stopping=False,
    resumes=None,
)
INTENT = Intent(
    job_id="job_1",
    name=NAME,
    environment="sandbox",
    stack=f"job-{NAME}",
    folder="",
    project="p",
    cluster="projects/p/locations/r/clusters/c",
    namespace="n",
    artifacts_bucket="artifacts",
    prefix="jobs/job_1/",
    labels=LABELS,
    deadline=4e9,
    max_running_seconds=3600,
    max_wait_seconds=None,
    replicas=("master-replica-0", "worker-replica-0"),
    machines={},
    study=PLAN.to_json(),
)


class Job:
    """A study on the fake servers, whose drivers come and go."""

    def __init__(self, kubernetes: Any, google: Any, cluster: Cluster, client: GoogleClient, folder: Path) -> None:
        self.kubernetes, self.google, self.cluster, self.client, self.folder = (
            kubernetes, google, cluster, client, folder,
        )  # fmt: skip
        self.records = Records.open(None, folder)
        self.lease: Lease = self.records.begin(INTENT.job_id, INTENT.name, INTENT.to_json())
        self.shown: list[str] = []
        self.states: list[State] = []
        self.drivers: list[tuple[StudySupervisor, LogStreams]] = []
        self.storage = Storage(client)
        self.study(PLAN)

    def study(self, plan: StudyPlan) -> None:
        data = {"study.json": json.dumps(plan.to_json()), "trial.json": json.dumps(_template())}
        self.kubernetes.put("configmaps", NAME, {**LABELS, "encamp-deadline": "4000000000"}, data=data)

    def driver(self, *, begins: bool = True) -> StudySupervisor:
        streams = LogStreams(self.cluster, "n", self.folder / "logs", lambda *_: None)
        made = StudySupervisor(
            Supervised(INTENT, self.cluster, self.client, streams, self.records, lambda: self.lease),
            limits=Limits(3600, None, 2),
            watch=Watch(self.shown.append, self.states.append, list),
            cancelled=threading.Event(),
            begins=begins,
        )
        self.drivers.append((made, streams))
        return made

    def job_sets(self) -> dict[int, dict[str, Any]]:
        held = self.kubernetes.objects
        return {
            int(item["metadata"]["labels"]["encamp-trial"]): item
            for (kind, _), item in held.items()
            if kind == "jobsets"
        }

    def runs(self, number: int, *values: float, code: int | None = None) -> None:
        """Replicas of a trial that run, and have reported values; with a code its master has ended."""
        for role in ROLES:
            name = f"{NAME}-{number}-{role}-0-0-x"
            labels = {
                **LABELS,
                "encamp-trial": str(number),
                "jobset.sigs.k8s.io/jobset-name": f"{NAME}-{number}",
                "jobset.sigs.k8s.io/replicatedjob-name": role,
                "batch.kubernetes.io/job-completion-index": "0",
            }
            state: dict[str, Any] = {"running": {}}
            if code is not None:
                state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
            status = {"phase": "Running", "containerStatuses": [{"name": "replica", "state": state}]}
            self.kubernetes.put("pods", name, labels, spec={"nodeName": "node"}, status=status)
            lines = [f"2026-01-01T00:00:01Z {role} of {number}\n"]
            if role == "master":
                lines += [f"2026-01-01T00:00:02Z encamp-metric: {_record(*each)}\n" for each in enumerate(values, 1)]
            self.kubernetes.logs[name] = [["".join(lines).encode()]]
        if code is not None:
            self.job_sets()[number]["status"] = {"terminalState": "Failed" if code else "Completed"}

    def trials(self) -> list[Trial]:
        record = self.records.record("job_1")
        assert record is not None
        return trials_of(record.entries)

    def stored(self, name: str) -> Any:
        return json.loads(self.google.objects["artifacts", f"jobs/job_1/{name}"])


def _record(step: int, value: float) -> str:
    return json.dumps({"global_step": str(step), "timestamp": 1.0 + step, "trial": "1", PLAN.metric: str(value)})


def _until(driver: StudySupervisor, condition: Callable[[], bool]) -> Outcome | None:
    end = time.monotonic() + 10
    outcome = None
    while outcome is None and not condition():
        assert time.monotonic() < end, "it did not come to be"
        outcome, _ = driver.look()
        time.sleep(0.02)
    return outcome


@pytest.fixture
def job(kubernetes: Any, google: Any, cluster: Cluster, client: GoogleClient, tmp_path: Path) -> Iterator[Job]:
    google.buckets["artifacts"] = {}
    made = Job(kubernetes, google, cluster, client, tmp_path)
    yield made
    for driver, streams in made.drivers:
        driver.close()
        streams.close()
    made.records.close()


def test_trials_are_the_studys_own_job_sets_and_two_questions_watch_them_all(job: Job) -> None:
    driver = job.driver()
    driver.look()
    assert sorted(job.job_sets()) == [1, 2]
    first = job.job_sets()[1]
    assert first["metadata"]["name"] == f"{NAME}-1"
    assert first["metadata"]["ownerReferences"][0]["uid"] == f"uid-{NAME}"
    spec = first["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["activeDeadlineSeconds"] == 2 * 3600
    words = first["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [f"--{name}={value}" for name, value in job.trials()[0].arguments.items()] == [
        word for word in words if word.startswith(("--learning-rate=", "--momentum="))
    ]
    for number in (1, 2):
        job.runs(number)
    driver.look()
    job.kubernetes.requests.clear()
    driver.look()
    asked = [request.path.rpartition("/")[2] for request in job.kubernetes.requests if "/log" not in request.path]
    assert asked == ["jobsets", "pods"]
    assert job.states == [State.RUNNING]
    assert [trial.state for trial in job.trials()] == [TrialState.RUNNING, TrialState.RUNNING]


def test_an_ended_trial_makes_room_in_one_look_and_is_sealed_beside_that(job: Job) -> None:
    driver = job.driver()
    driver.look()
    job.runs(1, 0.3, 0.2, code=0)
    assert _until(driver, lambda: 3 in job.job_sets()) is None
    ended = job.trials()[0]
    assert ended.state is TrialState.SUCCEEDED
    assert ended.final is not None
    assert (ended.final.step, ended.final.value) == (2, 0.2)
    _until(driver, lambda: 1 not in job.job_sets())
    _until(driver, lambda: ("artifacts", "jobs/job_1/trials.json") in job.google.objects)
    assert job.stored("logs/sealed.json")["replicas"][0]["complete"] is True
    assert ("artifacts", "jobs/job_1/logs/manifest.json") not in job.google.objects
    assert b"master of 1\n" in job.google.objects["artifacts", "jobs/job_1/logs/trial-1-master-replica-0.log"]


def test_a_study_comes_to_its_end(job: Job) -> None:
    driver = job.driver()
    outcome = None
    for number in (1, 2, 3, 4):
        _until(driver, lambda number=number: number in job.job_sets())
        job.runs(number, number / 10, code=3 if number == 2 else 0)
    outcome = _until(driver, lambda: False)
    assert outcome == Outcome(State.SUCCEEDED)
    states = [trial.state for trial in job.trials()]
    assert states == [TrialState.SUCCEEDED, TrialState.FAILED, TrialState.SUCCEEDED, TrialState.SUCCEEDED]
    assert "exited with a non-zero status of 3" in job.trials()[1].message


def test_who_adopts_a_study_finds_what_ended_unseen_and_begins_nothing_twice(job: Job) -> None:
    job.driver().look()
    job.runs(1, 0.5, code=0)
    job.runs(2, 0.4)
    adopter = job.driver()
    _until(adopter, lambda: 3 in job.job_sets())
    assert [trial.state for trial in job.trials()][:2] == [TrialState.SUCCEEDED, TrialState.RUNNING]
    created = [request for request in job.kubernetes.requests if request.method == "POST"]
    assert len(created) == 3


def test_who_only_looks_begins_nothing(job: Job) -> None:
    job.driver().look()
    job.runs(1, 0.5, code=0)
    looker = job.driver(begins=False)
    _until(looker, lambda: job.trials()[0].state is TrialState.SUCCEEDED)
    assert len(job.trials()) == 2
    assert 3 not in job.job_sets()


def test_a_lost_record_loses_no_trial(job: Job) -> None:
    """What has ended stands in the bucket, what runs on its JobSet."""
    driver = job.driver()
    driver.look()
    job.runs(1, 0.5, code=0)
    _until(driver, lambda: 3 in job.job_sets() and ("artifacts", "jobs/job_1/trials.json") in job.google.objects)
    _until(driver, lambda: 1 not in job.job_sets())
    before = job.trials()
    job.records = Records.open(None, job.folder / "another")
    job.lease = job.records.adopt(INTENT.job_id, INTENT.name, INTENT.to_json())
    job.driver().look()
    assert [(trial.number, trial.values, trial.final) for trial in job.trials()] == [
        (trial.number, trial.values, trial.final) for trial in before
    ]


def test_a_trial_that_the_cluster_refuses_has_failed(job: Job) -> None:
    job.kubernetes.fail("POST .*/jobsets", 403, 403)
    driver = job.driver()
    _until(driver, lambda: 3 in job.job_sets())
    assert [trial.state for trial in job.trials()][:2] == [TrialState.FAILED, TrialState.FAILED]
    assert "the cluster refused it: the API server refused: 403" in job.trials()[0].message


def test_a_trial_whose_job_set_somebody_deleted_has_failed(job: Job) -> None:
    driver = job.driver()
    driver.look()
    job.runs(1)
    driver.look()
    del job.kubernetes.objects["jobsets", f"{NAME}-1"]
    driver.look()
    assert job.trials()[0].message == "its JobSet was deleted by somebody else"


def test_a_study_that_is_gone_has_failed(job: Job) -> None:
    del job.kubernetes.objects["configmaps", NAME]
    assert job.driver().look()[0] == Outcome(State.FAILED, "its study was deleted by somebody else")


def test_a_trial_that_reported_another_metric_is_told_which(job: Job) -> None:
    driver = job.driver()
    driver.look()
    job.runs(1, code=0)
    name = f"{NAME}-1-master-0-0-x"
    job.kubernetes.logs[name] = [[b'2026-01-01T00:00:01Z encamp-metric: {"global_step": "1", "loss": "0.1"}\n']]
    _until(driver, lambda: job.trials()[0].state.ended)
    assert job.trials()[0].state is TrialState.FAILED
    assert "'loss'" in job.trials()[0].message


def test_the_end_of_a_job_leaves_no_trial_open(job: Job) -> None:
    driver = job.driver()
    driver.look()
    job.runs(1, 0.5)
    _until(driver, lambda: job.trials()[0].state is TrialState.RUNNING)
    driver.close()
    close_trials(job.records, job.lease, lambda: 7.0)
    keep_study(job.records, job.storage, INTENT, job.shown.append)
    assert [trial.state for trial in job.trials()] == [TrialState.CANCELLED, TrialState.CANCELLED]
    assert len(job.stored("trials.json")["trials"]) == 2
    assert b"<html" in job.google.objects["artifacts", "jobs/job_1/tuning.html"]
    assert replicas_of(INTENT, job.trials()) == ("trial-1-master-replica-0", "trial-1-worker-replica-0")
    more = replicas_of(INTENT, job.trials(), {"trial-2-master-replica-0"})
    assert more[-1] == "trial-2-master-replica-0"


def _kept(job: Job, plan: StudyPlan = PLAN, names: tuple[str, ...] = ("learning-rate", "momentum")) -> None:
    values = dict.fromkeys(names, 0.9)
    trials = (
        Trial(1, values, TrialState.SUCCEEDED, job_id="before"),
        Trial(2, values, TrialState.RUNNING, job_id="before"),
    )
    keep_trials(job.storage, "artifacts", "jobs/before/", StudyResults("before", plan, trials))


def test_a_resumed_study_has_what_it_goes_on_from_on_record_once(job: Job) -> None:
    _kept(job)
    job.study(replace(PLAN, resumes="before"))
    job.driver().look()
    del job.google.objects["artifacts", "jobs/before/trials.json"]
    job.driver().look()
    assert [(trial.number, trial.job_id) for trial in job.trials()] == [(1, "before"), (2, "job_1"), (3, "job_1")]


@pytest.mark.parametrize(
    ("plan", "names", "said"),
    [
        (PLAN, ("depth",), "job before tuned depth, this job tunes learning-rate, momentum"),
        (replace(PLAN, metric="other"), ("learning-rate", "momentum"), "hyperparameterMetricTag other"),
    ],
)
def test_a_study_of_something_else_is_not_gone_on_from(
    job: Job, plan: StudyPlan, names: tuple[str, ...], said: str
) -> None:
    _kept(job, plan, names)
    with pytest.raises(UsageError, match=said):
        earlier_trials(replace(PLAN, resumes="before"), job.records, job.storage, "artifacts")


def test_a_study_that_nobody_knows_is_not_gone_on_from(job: Job) -> None:
    with pytest.raises(UsageError, match="no trials of job never are known here"):
        earlier_trials(replace(PLAN, resumes="never"), job.records, job.storage, "artifacts")


def test_a_trial_that_ran_out_of_memory_holds_its_machines_no_longer(job: Job) -> None:
    """Its JobSet has not ended: the cluster would start it again."""
    driver = job.driver()
    driver.look()
    job.runs(1, 0.5)
    master = job.kubernetes.objects["pods", f"{NAME}-1-master-0-0-x"]
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:01:00Z"}
    master["status"]["containerStatuses"][0]["state"] = {"terminated": ended}
    _until(driver, lambda: 1 not in job.job_sets())
    assert job.trials()[0].state is TrialState.FAILED
    assert "ran out of memory" in job.trials()[0].message
    assert 3 in job.job_sets()


def test_a_study_that_failed_names_the_replica_that_did_and_its_last_lines(job: Job) -> None:
    job.study(replace(PLAN, max_failed_trials=1))
    driver = job.driver()
    driver.look()
    job.runs(1, 0.5, code=3)
    outcome = _until(driver, lambda: False)
    assert outcome is not None
    assert "trial 1: The replica master 0 exited with a non-zero status of 3." in outcome.message
    assert outcome.failure is not None
    assert outcome.failure.replica == "trial-1-master-replica-0"
    assert "master of 1" in outcome.failure.last_lines
