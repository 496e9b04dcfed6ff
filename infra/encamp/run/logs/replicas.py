"""Pods as replicas: which one each is, how far it has come, and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.plan.model import TRIAL_LABEL
from encamp.plan.names import log_name
from encamp.run.logs.last_words import bounded, last_words
from encamp.run.logs.metric_reports import record_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
ROLE_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
#: Label with the number of restarts of the whole job when a pod was created.
RESTARTS_LABEL = "jobset.sigs.k8s.io/restart-attempt"
CONTAINER = "replica"
_OUT_OF_MEMORY = "OOMKilled"
#: The bootstrap's words for a trainer that failed; the cause is in its last lines.
_FAILED = "Error"
#: Exit codes of programs that ended by themselves; of others the last lines say nothing.
_OWN_END = range(1, 128)


def replica_labels(name: str) -> dict[str, str]:
    """Return the labels that only the pods of the replica with a name have, among all of its job."""
    trial, of_trial, rest = name.removeprefix("trial-").partition("-")
    if not (name.startswith("trial-") and of_trial and trial.isdigit()):
        trial, rest = "", name
    role, _, index = rest.partition("-replica-")
    return {ROLE_LABEL: role, INDEX_LABEL: index, **({TRIAL_LABEL: trial} if trial else {})}


def trial_number(labels: Mapping[str, str]) -> int | None:
    """Return the number of a resource's trial, by its labels; None if it belongs to none."""
    number = labels.get(TRIAL_LABEL, "")
    return int(number) if number.isdigit() else None


@dataclass(frozen=True)
class Replica:
    """One pod of the job.

    Attributes:
        name: such as ``worker-replica-1``; a restarted replica is another pod under the same name.
        started: its container runs or has run.
        exit_code: None while it has not ended.
        reason: why it ended: the last line of its exception, a word of the bootstrap's, or Kubernetes' words.
        termination: what the bootstrap wrote, empty if it wrote nothing readable. Of a trial without the bootstrap
            the message is the end of the metric's file, and ``metrics`` its lines.
        began: RFC 3339 time since when its container runs or ran, empty before.
        scheduled: RFC 3339 time since when it has a machine, empty before.
        finished: RFC 3339 time of its end.
        stopped: it was told to stop, so that its exit code is nobody's fault.
        attempt: how often the whole job had been started again before.
        disruption: why its machine was taken from it, in Kubernetes' word; empty if it was not.
        out_of_memory: the kernel ended it for lack of memory.
        trial: number of the trial that it is a replica of, None if there are none.
        image_id: what the node says it runs: a name with the digest of the image, where the node knows one.
    """

    name: str
    role: str
    index: int
    pod: str
    uid: str
    phase: str
    node: str
    started: bool
    exit_code: int | None
    reason: str
    scheduled: str
    finished: str
    stopped: bool
    termination: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0
    disruption: str = ""
    out_of_memory: bool = False
    image_id: str = ""
    trial: int | None = None
    began: str = ""

    @property
    def excused(self) -> bool:
        """Whether it was ended from outside, so that its end says nothing of the training."""
        return self.stopped or bool(self.disruption)

    @property
    def failed(self) -> bool:
        """Whether it ended by itself in an error."""
        return self.phase == "Failed" or (self.exit_code is not None and self.exit_code != 0)


def read_replica(pod: dict[str, Any]) -> Replica | None:
    """Return a pod of a JobSet as a replica; None if it belongs to no job."""
    metadata = pod["metadata"]
    labels = metadata.get("labels", {})
    index = labels.get(INDEX_LABEL)
    role = labels.get(ROLE_LABEL)
    if role is None or index is None:
        return None
    status = pod.get("status", {})
    container = _container(status)
    ended = _ended(container)
    termination = _message(ended.get("message", ""))
    running = container.get("state", {}).get("running")
    trial = trial_number(labels)
    return Replica(
        name=log_name(role, int(index), trial),
        role=role,
        index=int(index),
        pod=metadata["name"],
        uid=metadata["uid"],
        phase=status.get("phase", "Pending"),
        node=pod.get("spec", {}).get("nodeName", ""),
        started=running is not None or bool(ended),
        exit_code=ended.get("exitCode"),
        reason=_reason(ended, termination, status),
        scheduled=status.get("startTime", "") if pod.get("spec", {}).get("nodeName") else "",
        finished=ended.get("finishedAt") or "",
        stopped="deletionTimestamp" in metadata,
        termination=termination,
        attempt=int(labels.get(RESTARTS_LABEL) or 0),
        disruption=_disruption(status),
        out_of_memory=_OUT_OF_MEMORY in {ended.get("reason"), termination.get("reason")},
        image_id=str(container.get("imageID") or ""),
        trial=trial,
        began=(ended or running or {}).get("startedAt") or "",
    )


def _told(termination: Mapping[str, Any], code: int | None) -> str:
    """Return the reason that a termination message gives: the bootstrap's word, or what its last lines tell."""
    reason, lines = str(termination["reason"]), termination.get("lastLines")
    if reason == _FAILED and isinstance(lines, list):
        return last_words([str(line) for line in lines]) if code in _OWN_END else ""
    # Without the bootstrap it is the end of the log.
    return last_words(reason.splitlines()) if "\n" in reason else bounded(reason)


def _disruption(status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("reason") or condition["type"])
    return ""


def _container(status: dict[str, Any]) -> dict[str, Any]:
    statuses = status.get("containerStatuses") or []
    named = [one for one in statuses if one.get("name") == CONTAINER]
    found: dict[str, Any] = (named or statuses or [{}])[0]
    return found


def _ended(container: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = container.get("state", {}).get("terminated") or {}
    return found


def _message(text: str) -> dict[str, Any]:
    reports = record_lines(text)
    if reports:
        return {"metrics": reports}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {"reason": text.strip()} if text.strip() else {}
    return found if isinstance(found, dict) else {}


def _reason(ended: dict[str, Any], termination: dict[str, Any], status: dict[str, Any]) -> str:
    if _OUT_OF_MEMORY in {ended.get("reason"), termination.get("reason")}:
        return "it ran out of memory"
    if termination.get("reason"):
        return _told(termination, ended.get("exitCode"))
    if status.get("message") or status.get("reason"):
        return f"{status.get('reason', '')} {status.get('message', '')}".strip()
    return str(ended.get("reason", "")) if ended.get("reason") not in {"Error", "Completed"} else ""
