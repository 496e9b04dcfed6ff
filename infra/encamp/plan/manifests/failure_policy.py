"""The failure policy of replicas: section 6 of the job model in Kubernetes' own policies.

Exit codes 1..127 are permanent: the job fails. 139, and 134 in a custom container, try the whole job again; 134
elsewhere is permanent. Any other code restarts the replica, up to five times, then the whole job, up to three times.
A machine that is taken away costs neither, unless ``resilientToWorkerRestart`` asks for the whole job again; but after
the job's deadline nothing starts again: the replica itself then ends with 124, which is looked for before all else.

A replica that ends with the same code each time, soon after its start, makes no progress: once its own restarts are
used up, whoever drives the job ends it, and the whole job is not started again. Kubernetes cannot count that.

A Job's policy says in its message which of its rules matched, and the JobSet's rules read that message. Kubernetes
shows a policy no reason but the exit code, so a replica out of memory (137) is told apart by whoever drives the job.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

_PERMANENT = tuple(range(1, 128))
_ABORTED = 134
_SEGMENTATION_FAULT = 139
_LARGEST = 255

#: Ends in a row with the same code, each soon after the start, that fail the job: the first and all five restarts.
EQUAL_ENDS = 6
#: Seconds that count as soon: time for packages and imports, but not for training that would be worth a retry.
SOON_SECONDS = 120

#: With what the bootstrap ends a replica that would start, or was stopped, after the job's deadline (as timeout(1)).
PAST_DEADLINE = 124

#: Positions of the rules in every Job's policy; the JobSet's rules name them.
_DEADLINE, _DISRUPTION, _FOR_GOOD, _WHOLE_JOB = range(4)


class Consequence(Enum):
    """The consequence of a replica's failure."""

    JOB_FAILS = auto()
    REPLICA_AGAIN = auto()
    JOB_AGAIN = auto()


def consequence(code: int, *, custom_container: bool, whole_job: bool) -> Consequence:
    """Return the consequence of an exit code other than 0 while retries are left.

    Args:
        code: 1..255; 128 and the signal's number where a signal ended the replica.
        custom_container: whether the image is the user's own.
        whole_job: whether any restart of a replica restarts the whole job.
    """
    if code in _permanent(custom_container=custom_container):
        return Consequence.JOB_FAILS
    if whole_job or code in _whole_job(custom_container=custom_container):
        return Consequence.JOB_AGAIN
    return Consequence.REPLICA_AGAIN


def _permanent(*, custom_container: bool) -> list[int]:
    return [*_PERMANENT] if custom_container else [*_PERMANENT, _ABORTED]


def _whole_job(*, custom_container: bool) -> list[int]:
    return [_SEGMENTATION_FAULT, *([_ABORTED] if custom_container else [])]


def pod_failure_rules(*, custom_container: bool, whole_job: bool) -> list[dict[str, Any]]:
    """Return rules of one role's Job.

    Args:
        custom_container: whether the image is the user's own.
        whole_job: whether any restart of a replica restarts the whole job.
    """
    permanent = _permanent(custom_container=custom_container)
    again = _whole_job(custom_container=custom_container)
    if whole_job:
        again = [code for code in range(128, _LARGEST + 1) if code not in permanent]
    rules: list[dict[str, Any]] = [{} for _ in range(4)]
    rules[_DEADLINE] = _on_exit_codes([PAST_DEADLINE])
    rules[_DISRUPTION] = {
        "action": "FailJob" if whole_job else "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    rules[_FOR_GOOD] = _on_exit_codes(permanent)
    rules[_WHOLE_JOB] = _on_exit_codes(sorted(again))
    return rules


def _on_exit_codes(codes: list[int]) -> dict[str, Any]:
    return {"action": "FailJob", "onExitCodes": {"containerName": "replica", "operator": "In", "values": codes}}


def job_set_rules(*, whole_job: bool) -> list[dict[str, Any]]:
    """Return rules of the JobSet; what none of them matches restarts the whole job, as often as maxRestarts allows."""
    rules: list[dict[str, Any]] = [
        {
            "name": "permanent",
            "action": "FailJobSet",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [_matched(_DEADLINE), _matched(_FOR_GOOD)],
        },
        {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
    ]
    if whole_job:
        rules.append(
            {
                "name": "disruption",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["PodFailurePolicy"],
                "onJobFailureMessagePatterns": [_matched(_DISRUPTION)],
            }
        )
    return rules


def _matched(rule: int) -> str:
    return f"matching FailJob rule at index {rule}$"
