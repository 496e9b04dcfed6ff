"""Slots for a study's trials on this machine: each has its own ports and GPUs, and one trial at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.plan.study import METRIC_FILE_VARIABLE
from encamp.plan.trial import trial_plan
from encamp.run.local.devices import divide
from encamp.run.local.job import asked_accelerators
from encamp.run.local.planned import addresses, planned_replicas
from encamp.run.local.ports import reserve
from encamp.run.local.prepare import check_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from encamp.plan.study import StudyPlan
    from encamp.run.local.job import LocalJob, LocalJobRequest
    from encamp.run.local.model import LocalReplica
    from encamp.tuning.model import Trial

_FLAG = "--parallel-trials"
_FILE = "output.metrics"


@dataclass(frozen=True)
class Slots:
    """Slots of a job.

    Attributes:
        job: the job whose trials run in them.
        study: of the job, with as many trials at a time as there are slots.
        ports: of each slot.
        devices: by slot and name of a replica, what it sees of this machine's GPUs.
        notes: what the user is told.
    """

    job: LocalJob
    study: StudyPlan
    ports: tuple[tuple[int, ...], ...]
    devices: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]

    def replicas(self, trial: Trial, slot: int, folder: Path) -> list[tuple[LocalReplica, Path]]:
        """Return the replicas of a trial, the primary first, and the file that each reports its metric in.

        ``folder`` is the trial's own, for those files.
        """
        plan = trial_plan(self.job.plan, trial.number, trial.arguments, trial.parent)
        found: list[tuple[LocalReplica, Path]] = []
        for replica in planned_replicas(plan, self.job.host, self.ports[slot]):
            path = folder / f"{replica.role.value}-{replica.index}" / _FILE
            seeing = self.devices.get(_place(slot, replica), {})
            env = {**replica.env, **seeing, METRIC_FILE_VARIABLE: str(path)}
            found.append((replace(replica, env=env), path))
        return found


def make_slots(job: LocalJob, request: LocalJobRequest, wanted: int | None, resources: ExitStack) -> Slots:
    """Return the slots of a job with a study: as many as the job has trials at a time, or fewer.

    Args:
        job: with a study.
        request: how it is to run here.
        wanted: ``--parallel-trials``, None for as many as the job says.
        resources: that the ports go with.

    Raises:
        UsageError: fewer than one, or more replicas than run here at once.
        EngineError: there are no free ports.
    """
    study = job.plan.study
    if study is None:
        raise ValueError("a job without a study has no trials")
    if wanted is not None and wanted < 1:
        raise UsageError(f"{wanted} trials at a time", where=_FLAG, hint="1 is the least")
    count = min(wanted or study.max_parallel_trials, study.max_parallel_trials)
    check_number(count * sum(group.count for group in job.plan.groups))
    each = addresses(job.plan)
    numbers = resources.enter_context(reserve(each * count, request.start_port)).numbers
    ports = tuple(numbers[slot * each : (slot + 1) * each] for slot in range(count))
    replicas = {slot: planned_replicas(job.plan, job.host, ports[slot]) for slot in range(count)}
    roles = {_place(slot, replica): replica.role for slot in replicas for replica in replicas[slot]}
    asked = {
        _place(slot, replica): accelerators[replica.name]
        for slot in replicas
        if (accelerators := asked_accelerators(job.plan, replicas[slot]))
        for replica in replicas[slot]
        if replica.name in accelerators
    }
    devices = divide(job.gpus, roles, asked)
    notes = [*job.notes, *devices.notes, f"trials: {study.max_trials}, {count} at a time"]
    if wanted is not None and wanted > count:
        notes.append(f"{_FLAG}: maxParallelTrials of the job is {study.max_parallel_trials}")
    return Slots(job, replace(study, max_parallel_trials=count), ports, devices.env, tuple(notes))


def _place(slot: int, replica: LocalReplica) -> str:
    return f"slot-{slot + 1}-{replica.role.value}-{replica.index}"
