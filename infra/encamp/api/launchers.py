"""Launchers of drivers: as processes of this machine, or as Kubernetes Jobs of the environment's own cluster."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError, UsageError
from encamp.run.history.detached import DRIVER_LOG, start_adopter, start_submitted
from encamp.run.lifecycle.in_cluster import hand_over
from encamp.run.lifecycle.submitted import handed_in_by, planned_again, sent_job
from encamp.run.store import holder
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.plan.environment.driver import DriverPlan
    from encamp.run.store.encryption import Cipher
    from encamp.run.store.records import Records
    from encamp.run.store.submissions import Waiting
    from encamp.spec.environment import EnvironmentSpec

#: Seconds between questions to the cluster for a driver.
_ASK_SECONDS = 5.0


class LocalLauncher:
    """Drivers are processes of this machine, each in a session of its own.

    Args:
        environment: name of the environment's stack.
        folder: ``.encamp``, with the jobs' folders.
    """

    def __init__(self, environment: str, folder: Path) -> None:
        self._environment = environment
        self._folder = folder

    def start(self, job: Waiting) -> _Child:
        """Start ``encamp drive --submitted``."""
        return _Child(start_submitted(job.job_id, self._environment, self._log(job)))

    def find(self, job: Waiting) -> _Process | None:
        """Return a driver of this machine that has said who it is."""
        if job.driver is None or not holder.is_here(job.driver):
            return None
        found = _Process(job.driver)
        return found if found.alive() else None

    def adopt(self, job: Waiting) -> _Child:
        """Start ``encamp reap --job``."""
        return _Child(start_adopter(job.job_id, self._environment, self._log(job)))

    def _log(self, job: Waiting) -> Path:
        return self._folder / "jobs" / job.name / DRIVER_LOG


class _Child:
    """A process that this one has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def alive(self) -> bool:
        return self._process.poll() is None


class _Process:
    """A process that another one has started; ``who`` as ``holder`` says it."""

    def __init__(self, who: str) -> None:
        self._who = who

    def alive(self) -> bool:
        return holder.alive(self._who, math.inf, 0.0)


class ClusterLauncher:
    """Drivers are Kubernetes Jobs; each holds its job, so that none needs the key of submissions.

    Args:
        environment: name of the environment's stack, of which ``spec`` is what is committed.
        driver: the environment's drivers.
        cipher: opens what was sent.
        connect: a client of the environment's API server.
    """

    def __init__(
        self,
        environment: str,
        spec: EnvironmentSpec,
        driver: DriverPlan,
        *,
        records: Records,
        cipher: Cipher,
        connect: Callable[[], Cluster],
    ) -> None:
        self._environment = environment
        self._spec = spec
        self._driver = driver
        self._records = records
        self._cipher = cipher
        self._connect = connect
        self._cluster: Cluster | None = None

    def start(self, job: Waiting) -> _Pod:
        """Hand a job over; an ended driver from before is replaced, a running one goes on."""
        record, data = sent_job(self._records, self._cipher, job.job_id)
        plan = planned_again(parse_job(data, source=job.job_id).job, self._spec, record)
        cluster = self._reached()
        before = cluster.get("jobs", self._driver.name, job.name)
        if before is not None and _is_over(before):
            cluster.delete("jobs", self._driver.name, job.name)
        who = handed_in_by(record).to_json()
        try:
            hand_over(cluster, self._driver, plan, data, environment=self._environment, started_by=who)
        except UsageError:
            if before is None or _is_over(before):
                raise
        return _Pod(self, job)

    def find(self, job: Waiting) -> _Pod | None:
        """Return the Kubernetes Job that drives a job, unless it has ended."""
        found = _Pod(self, job)
        return found if found.alive() else None

    def adopt(self, job: Waiting) -> _Pod | None:
        """Return the Kubernetes Job that begins another pod.

        Where that is over, the environment's reaper ends the job.
        """
        return self.find(job)

    def runs(self, job: Waiting) -> bool:
        """Whether the cluster has a driver of a job that is not over; also where the cluster does not answer."""
        try:
            found = self._reached().get("jobs", self._driver.name, job.name)
        except EncampError:
            self._forget()
            return True
        return found is not None and not _is_over(found)

    def close(self) -> None:
        """Close the connections to the API server; drivers go on."""
        self._forget()

    def _reached(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._connect()
        return self._cluster

    def _forget(self) -> None:
        """Connect anew the next time."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


class _Pod:
    """A driver in the cluster, asked for now and then."""

    def __init__(self, launcher: ClusterLauncher, job: Waiting) -> None:
        self._launcher = launcher
        self._job = job
        self._alive = True
        self._asked = -math.inf

    def alive(self) -> bool:
        if self._alive and time.monotonic() - self._asked > _ASK_SECONDS:
            self._alive = self._launcher.runs(self._job)
            self._asked = time.monotonic()
        return self._alive


def _is_over(job: dict[str, Any]) -> bool:
    """Whether a Kubernetes Job has ended."""
    conditions = job.get("status", {}).get("conditions") or []
    return any(one.get("type") in {"Complete", "Failed"} and one.get("status") == "True" for one in conditions)
