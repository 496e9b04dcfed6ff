from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.run.sealed_objects import sealed_objects

from encamp.cloud.leftovers import JobPlace, objects
from encamp.cloud.storage import Storage
from encamp.errors import TeardownError
from encamp.run.lifecycle.teardown import Teardown
from encamp.run.logs.driver_logs import DriverSpool, SealedLogs
from encamp.run.logs.replicas import read_replica, replica_labels
from encamp.run.logs.seal import seal_logs, stored_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.store.journal import Entry
from encamp.run.store.trial_journal import RESUMED, TRIAL, resumed_data, trials_of
from encamp.run.studies.sealing import TrialSeals
from encamp.tuning.model import Trial, TrialState

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

LABELS = {"encamp-job": "j", "encamp-owner": "encamp", "encamp-environment": "sandbox"}


def _entry(kind: str, data: dict[str, Any]) -> Entry:
    return Entry(datetime.now(UTC), kind, data)


def _trial(number: int, state: TrialState, job_id: str = "job_1") -> Trial:
    return Trial(number, {"x": number}, state, job_id=job_id)


def test_the_latest_entry_of_a_trial_counts_and_what_is_none_tells_nothing() -> None:
    entries = [
        _entry(RESUMED, resumed_data("before", [_trial(1, TrialState.SUCCEEDED, "before")])),
        _entry("state", {"state": "RUNNING"}),
        _entry(TRIAL, _trial(3, TrialState.PREPARING).to_json()),
        _entry(TRIAL, _trial(2, TrialState.PREPARING).to_json()),
        _entry(TRIAL, {"number": 2, "state": "UNHEARD_OF", "values": {}}),
        _entry(TRIAL, {"number": "two"}),
        _entry(RESUMED, {"trials": "none"}),
        _entry(TRIAL, _trial(3, TrialState.FAILED).to_json()),
    ]
    found = [(trial.number, str(trial.state), trial.job_id) for trial in trials_of(entries)]
    assert found == [(1, "SUCCEEDED", "before"), (2, "PREPARING", "job_1"), (3, "FAILED", "job_1")]


def test_a_trials_replica_is_found_by_its_name() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    role = "jobset.sigs.k8s.io/replicatedjob-name"
    labels = replica_labels("trial-12-worker-replica-3")
    assert labels == {role: "worker", index: "3", "encamp-trial": "12"}
    assert replica_labels("master-replica-0") == {role: "master", index: "0"}
    replica = read_replica({"metadata": {"name": "p", "uid": "u", "labels": labels}})
    assert replica is not None
    assert (replica.name, replica.trial) == ("trial-12-worker-replica-3", 12)


def test_trials_are_leftovers_though_they_have_an_owner(kubernetes: Any, cluster: Cluster) -> None:
    """Their owner may be gone before them."""
    kubernetes.put("jobsets", "j-1", LABELS)["metadata"]["ownerReferences"] = [{"kind": "ConfigMap", "name": "j"}]
    found = objects(JobPlace("p", LABELS, namespace="n"), cluster)
    assert [str(one) for one in found] == ["jobset n/j-1"]


def test_every_trial_of_a_job_is_stopped_and_no_other(kubernetes: Any, cluster: Cluster, client: GoogleClient) -> None:
    for number in (1, 2):
        kubernetes.put("jobsets", f"j-{number}", {**LABELS, "encamp-trial": str(number)})
    kubernetes.put("jobsets", "other-1", {**LABELS, "encamp-job": "other"})
    _teardown(cluster, client).stop_trials()
    assert [name for kind, name in kubernetes.objects if kind == "jobsets"] == ["other-1"]


def test_trials_that_do_not_stop_are_named(
    kubernetes: Any, cluster: Cluster, client: GoogleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes.put("jobsets", "j-1", LABELS)

    def ignored(*_: Any, **__: Any) -> None:
        """The finalizer of an object that nobody takes away."""

    monkeypatch.setattr(cluster, "delete", ignored)
    with pytest.raises(TeardownError, match="still there: j-1"):
        _teardown(cluster, client).stop_trials()


def test_logs_of_trials_are_sealed_one_by_one_and_stay_sealed(
    client: GoogleClient, google: Any, tmp_path: Path
) -> None:
    google.buckets["b"] = {}
    storage = Storage(client)
    logs = {name: _whole(tmp_path, name) for name in ("trial-1-master-replica-0", "trial-2-master-replica-0")}
    seals = TrialSeals(storage, "b", "jobs/x/", logs.__getitem__)
    for name in logs:
        seals.seal([name])
    stored = stored_logs(storage, "b", "jobs/x/")
    assert all(stored.whole(name) for name in logs)
    assert ("b", "jobs/x/logs/manifest.json") not in google.objects
    google.requests.clear()
    seal = seal_logs(storage, "b", "jobs/x/", list(logs), logs.__getitem__, before=stored)
    assert seal.stored
    assert seal.problems == ()
    assert not any("replica-0.log" in str(request.query) for request in google.requests if request.method != "GET")


def test_who_follows_a_study_reads_logs_that_come_to_be(client: GoogleClient, google: Any, tmp_path: Path) -> None:
    google.buckets["b"] = {}
    said: list[str] = []
    sealed = SealedLogs(Storage(client), "b", "jobs/x/")
    spool = DriverSpool(tmp_path, None, sealed, lambda name, line: said.append(f"{name} {line}"))
    spool.look()
    (tmp_path / "trial-1-master-replica-0.log").write_text("one\n")
    spool.look()
    google.objects.update(sealed_objects("b", "jobs/x/", "trial-2-master-replica-0", b"two\n"))
    spool.end()
    assert said == ["trial-1-master-replica-0 one", "trial-2-master-replica-0 two"]


def _teardown(cluster: Cluster, client: GoogleClient) -> Teardown:
    place = JobPlace("p", LABELS, namespace="n")
    said: list[str] = []
    return Teardown(client, cluster, place, said.append, engine=None, stack="s", committed=False, sleep=lambda _: None)


def _whole(folder: Path, name: str) -> ReplicaLog:
    """A log that was read to its end."""
    replica = read_replica(
        {
            "metadata": {"name": f"pod-{name}", "uid": name, "labels": replica_labels(name)},
            "status": {"containerStatuses": [{"name": "replica", "state": {"terminated": {"exitCode": 0}}}]},
        }
    )
    assert replica is not None
    log = ReplicaLog(folder, name, lambda *_: None)
    assert log.begin(replica)
    log.feed(b"2026-01-01T00:00:01Z hello\n")
    log.end(replica, complete=True)
    return log
