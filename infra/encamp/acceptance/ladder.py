"""The ladder: small jobs, cheapest first, each with its purpose and its expected end.

Every job ends by itself within minutes, whoever dies. Its trainer is ``templates/acceptance/trainer``; images are
small, public and without a framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from encamp.duration import Duration
from encamp.errors import UsageError
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from encamp.spec.environment import EnvironmentSpec

#: Name of the questions to the environment itself, without a job; it stands beside the rungs' names.
ENVIRONMENT: Final = "environment"
#: Has Python and nothing else that the trainer needs; the bootstrap runs in it.
IMAGE: Final = "python:3.11-slim"
_CPU: Final = {"machineType": "e2-standard-4"}
#: Longest wait of a rung for its machines: the shortest that a job file may say.
WAIT_SECONDS: Final = 1800
#: Running time of a rung's trainer when all is well, and of one that hangs: where machines take minutes,
#: and in the sandbox.
_TRAIN_SECONDS, _TRAIN_SANDBOX_SECONDS = 45, 10
_HANG_SECONDS, _HANG_SANDBOX_SECONDS = 60, 15
#: After this a rung's job is ended, however it is.
_LONGEST_SECONDS: Final = 600
_FOR_EVER: Final = 86_400
#: Expected time of a rung beside its training: its image and its package come. Belief: time-image-pull.
_AROUND_SECONDS: Final = 120


class Kill(StrEnum):
    """The moment at which the driver of a rung's job is killed."""

    BRINGING_UP = "while the job is brought up"
    RUNNING = "while the job trains"


@dataclass(frozen=True)
class Rung:
    """One job of the ladder.

    Attributes:
        name: short name, for ``--only``, ``--skip`` and job ids.
        shows: what it shows, in one sentence.
        ends: states in which its job may end when all is as believed.
        training_input: its TrainingInput beside what every rung has.
        block: its ``encamp`` block beside what every rung has.
        hangs: its trainer never ends.
        kill: when its driver is killed; None if it is not.
        needs_queue: only an environment with queues can run it.
        previews: the job's stack is previewed while it runs.
        misfit: a pod that no machine can take stands beside the job while it runs.
    """

    name: str
    shows: str
    ends: frozenset[State]
    training_input: Mapping[str, Any] = field(default_factory=dict)
    block: Mapping[str, Any] = field(default_factory=dict)
    hangs: bool = False
    kill: Kill | None = None
    needs_queue: bool = False
    previews: bool = False
    misfit: bool = False

    def job(self, spec: EnvironmentSpec) -> dict[str, Any]:
        """Return the rung's job file as data; in an environment with queues it waits in the first one."""
        queues = spec.queues
        trains = _TRAIN_SANDBOX_SECONDS if spec.is_sandbox else _TRAIN_SECONDS
        longest = _LONGEST_SECONDS
        if self.hangs:
            trains, longest = _FOR_EVER, _HANG_SANDBOX_SECONDS if spec.is_sandbox else _HANG_SECONDS
        queue = queues.default or min(queues.teams or {}, default=None) if queues is not None else None
        return {
            "trainingInput": {
                "scaleTier": "CUSTOM",
                "region": spec.region,
                "masterConfig": {"imageUri": IMAGE},
                "pythonModule": "trainer.task",
                "args": [f"--seconds={trains}"],
                "scheduling": {
                    "maxWaitTime": str(Duration.of(WAIT_SECONDS)),
                    "maxRunningTime": str(Duration.of(longest)),
                },
                **self.training_input,
            },
            "encamp": {
                "packagePath": "trainer",
                "machines": {"master": _CPU},
                "storage": {"kind": "ENVIRONMENT"},
                "expectedTime": str(Duration.of(min(trains + _AROUND_SECONDS, longest))),
                "retention": {"resultsDays": 30},
                **({"queue": queue} if queue is not None else {}),
                **self.block,
            },
        }


_SUCCEEDS: Final = frozenset({State.SUCCEEDED})
_STUDY: Final = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "x",
    "maxTrials": 2,
    "maxParallelTrials": 2,
    "algorithm": "RANDOM_SEARCH",
    "params": [
        {"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1, "scaleType": "UNIT_LINEAR_SCALE"}
    ],
}

LADDER: Final = (
    Rung(
        name="cpu",
        shows="two replicas find each other on machines that come from zero, and all of it goes",
        ends=_SUCCEEDS,
        training_input={
            "workerCount": 1,
            "workerConfig": {"imageUri": IMAGE},
        },
        block={"machines": {"master": _CPU, "worker": _CPU}},
        previews=True,
        misfit=True,
    ),
    Rung(
        name="spot",
        shows="a Spot machine comes with its label, and its job ends like any other",
        ends=_SUCCEEDS,
        block={"provisioning": "SPOT"},
    ),
    Rung(
        name="hang",
        shows="a replica that never ends is ended by its maximum running time",
        ends=frozenset({State.CANCELLED}),
        hangs=True,
    ),
    Rung(
        name="killed",
        shows="a job whose driver is killed trains on, and the reaper brings it to its end",
        ends=_SUCCEEDS,
        kill=Kill.RUNNING,
    ),
    Rung(
        name="cut-short",
        shows="what a driver had begun to make when it was killed is found and deleted",
        ends=frozenset({State.FAILED, State.CANCELLED}),
        kill=Kill.BRINGING_UP,
    ),
    Rung(
        name="queue",
        shows="Kueue holds a job until its quota admits it",
        ends=_SUCCEEDS,
        needs_queue=True,
    ),
    Rung(
        name="tuning",
        shows="two trials of a study run beside each other on the pools of one job",
        ends=_SUCCEEDS,
        training_input={"hyperparameters": _STUDY},
    ),
    Rung(
        name="l4",
        shows="a machine with one L4 comes with its driver, label and taint",
        ends=_SUCCEEDS,
        block={"machines": {"master": {"gpu": {"type": "NVIDIA_L4"}}}},
    ),
)


def rungs(only: Collection[str] = (), skip: Collection[str] = ()) -> tuple[Rung, ...]:
    """Return the rungs of the ladder that are asked for, in its order.

    Raises:
        UsageError: a name is not known.
    """
    known = [ENVIRONMENT, *(rung.name for rung in LADDER)]
    for name in (*only, *skip):
        if name not in known:
            raise UsageError(f"there is no rung {name!r}", hint=f"one of: {', '.join(known)}")
    return tuple(rung for rung in LADDER if (not only or rung.name in only) and rung.name not in skip)
