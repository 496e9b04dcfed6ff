"""Runs one rung: a detached driver drives its job, which is watched, killed where that is the point, and accounted."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.cases import JobCase
from encamp.acceptance.ladder import IMAGE, Kill
from encamp.acceptance.progress import RungResult
from encamp.acceptance.sightings import Sightings
from encamp.acceptance.watcher import JobWatcher
from encamp.ci.preview import Previews
from encamp.cloud.endpoints import Service
from encamp.cloud.resources import Container
from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.packaging.local import local_packages
from encamp.plan.job import plan_job
from encamp.resources import resource
from encamp.run.actor import Actor
from encamp.run.catalogue import Catalogue
from encamp.run.detached import DRIVER_LOG, start_driver
from encamp.run.ended import result_of
from encamp.run.following import Follower
from encamp.run.growing import GrowingLog
from encamp.run.replicas import CONTAINER
from encamp.run.states import State
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from encamp.acceptance.ladder import Rung
    from encamp.ci.preview import Previewed
    from encamp.cloud.kubernetes import Cluster
    from encamp.plan.model import JobPlan
    from encamp.run.catalogue import KnownJob
    from encamp.run.context import Context
    from encamp.run.interrupts import Interrupts
    from encamp.run.outputs import EnvironmentOutputs
    from encamp.run.records import Records
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job_file import JobFile

#: A driver that is to be killed while it brings its job up is looked at so often.
_QUICK_SECONDS: Final = 0.1
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT")
_SINGLE: Final = ("creating ", "created ", "deleting ", "deleted ")
_MISFIT: Final = "-misfit"
_LONGEST_LOG: Final = 1_000_000
_MOST_LINES: Final = 200


@dataclass(frozen=True)
class Place:
    """Where rungs are run.

    Attributes:
        folder: of the run; each rung has one in it.
        look_seconds: time between two looks at a job.
    """

    context: Context
    spec: EnvironmentSpec
    stack: str
    outputs: EnvironmentOutputs
    cluster: Cluster
    records: Records
    interrupts: Interrupts
    folder: Path
    look_seconds: float


def job_id(rung: Rung, run: str, before: Collection[str] = ()) -> str:
    """The id of a rung's job, by which everybody knows its run; another one than those ``before``."""
    first = f"acceptance_{rung.name.replace('-', '_')}_{run}"
    candidates = (first, *(f"{first}_{count}" for count in range(2, len(before) + 3)))
    return next(one for one in candidates if one not in before)


def is_of_run(job: str, run: str) -> bool:
    """Whether a job's id is that of a rung of a run."""
    return job.startswith("acceptance_") and f"_{run}" in job


def plan_rung(rung: Rung, spec: EnvironmentSpec, chosen: str) -> JobPlan:
    """The plan of a rung's job.

    Raises:
        PlanError: it cannot be planned for this environment.
    """
    found = _job_file(rung, spec, resource("templates", "acceptance")).named(chosen)
    return plan_job(found.job, spec, packages=local_packages(found))


def _job_file(rung: Rung, spec: EnvironmentSpec, folder: Path) -> JobFile:
    return parse_job(rung.job(spec), source=f"rung {rung.name}", folder=folder)


def misfit(plan: JobPlan) -> dict[str, Any]:
    """A pod that no machine of any pool can take; it goes with the job's labels, by which the reaper finds it."""
    container = {
        "name": "misfit",
        "image": IMAGE,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{plan.name}{_MISFIT}", "namespace": plan.namespace, "labels": {**plan.labels}},
        "spec": {
            "nodeSelector": {"encamp.dev/nowhere": "true"},
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": security,
            "containers": [container],
        },
    }


class RungRun:
    """One rung from its job file to its receipt."""

    def __init__(self, rung: Rung, chosen: str, place: Place) -> None:
        self._rung = rung
        self._job = chosen
        self._place = place
        self._plan = plan_rung(rung, place.spec, chosen)
        self._folder = place.folder / rung.name
        self._container = Container(place.context.client)
        self._sightings = Sightings()
        self._preview: Previewed | None = None
        self._driver: int | None = None
        self._cancelled = False
        self._misfit = False

    def run(self) -> tuple[RungResult, JobCase | None]:
        """Run the job to its end; without a case there is nothing to ask about.

        Raises:
            EngineError: whoever took the job over could not bring it to its end.
        """
        begun = time.monotonic()
        started = start_driver([str(self._write()), "--job-id", self._job, "--environment", self._place.stack])
        if started.job_id is None:
            return RungResult(self._job, trouble=f"it was not accepted: exit code {started.exit_code}"), None
        self._driver = started.process if self._rung.kill is not None else None
        watcher = self._watcher()
        try:
            self._follower(watcher).run()
        finally:
            if self._misfit:
                self._place.cluster.delete("pods", self._plan.namespace, misfit(self._plan)["metadata"]["name"])
        known = self._catalogue().job(self._job)
        result = result_of(known, self._place.records.record(self._job))
        trouble = "" if State(known.state) in self._rung.ends else f"{known.state}: {known.message}"
        if result.teardown_error is not None:
            trouble = result.teardown_error.what
        seconds = round(time.monotonic() - begun, 1)
        ended = RungResult(self._job, known.state, not trouble, trouble, known.cost, seconds)
        self._sightings.write(self._folder / "sightings.json")
        return ended, self._case(known, watcher.refused)

    def _write(self) -> Path:
        """The rung's job file, with its trainer beside it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(
            resource("templates", "acceptance", "trainer"),
            self._folder / "trainer",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        file = self._folder / "job.json"
        file.write_text(json.dumps(self._rung.job(self._place.spec), indent=1), encoding="utf-8")
        return file

    def _watcher(self) -> JobWatcher:
        return JobWatcher(
            self._plan,
            self._place.cluster,
            self._container,
            self._place.outputs.cluster_path,
            sightings=self._sightings,
            seconds=self._place.look_seconds,
            also=self._act,
        )

    def _follower(self, watcher: JobWatcher) -> Follower:
        log = self._place.context.job_folder(self._plan.name) / DRIVER_LOG
        hurried = self._rung.kill is Kill.BRINGING_UP
        return Follower(
            self._job,
            self._place.stack,
            self._place.records,
            log=log,
            show=self._show,
            sources=(GrowingLog(log, self._said), watcher),
            sleep=lambda seconds: time.sleep(_QUICK_SECONDS if hurried and self._driver else seconds),
        )

    def _show(self, line: str) -> None:
        self._place.context.show(f"{self._rung.name}: {line}")

    def _said(self, line: str) -> None:
        """Show a line of the driver's log: neither single resources, nor the receipt, which has no times before it."""
        at, _, text = line.partition(" ")
        if _TIME.match(at) and not text.startswith(_SINGLE):
            self._show(text)

    def _act(self) -> None:
        """Do to the job what the rung, or who interrupts the run, wants of it."""
        if self._place.interrupts.cancelled.is_set() and not self._cancelled:
            self._cancelled = True
            self._place.records.request_cancel(self._job, Actor.myself().words())
        if self._driver is not None and self._is_time():
            self._show(f"killing its driver, process {self._driver}")
            with suppress(ProcessLookupError):
                os.kill(self._driver, signal.SIGKILL)
            self._driver = None
        if self._rung.misfit and not self._misfit and self._runs():
            self._misfit = True
            self._place.cluster.create("pods", self._plan.namespace, misfit(self._plan))
        if self._rung.previews and self._preview is None and self._runs():
            folder = self._place.context.job_folder(self._plan.name)
            self._preview = Previews(folder).existing(f"job-{self._plan.name}")

    def _is_time(self) -> bool:
        """Whether the driver has come to where it is to be killed."""
        if self._rung.kill is Kill.RUNNING:
            return self._runs()
        record = self._place.records.record(self._job)
        return record is not None and any(entry.kind == "resource" for entry in record.entries)

    def _runs(self) -> bool:
        record = self._place.records.record(self._job)
        return record is not None and record.state is State.RUNNING

    def _catalogue(self) -> Catalogue:
        storage = Storage(self._place.context.client)
        bucket = self._place.outputs.artifacts_bucket
        return Catalogue(self._place.records, storage, environment=self._place.stack, bucket=bucket)

    def _case(self, known: KnownJob, refused: Mapping[str, str]) -> JobCase:
        missing = dict(refused)
        return JobCase(
            rung=self._rung,
            plan=self._plan,
            outputs=self._place.outputs,
            client=self._place.context.client,
            state=State(known.state),
            times=known.times,
            sightings=self._sightings,
            refused=missing,
            receipt=known.receipt,
            logs=dict(_logs(Storage(self._place.context.client), known)),
            operations=tuple(_tried(self._operations, "operations", missing)),
            lines=tuple(_tried(self._lines, "log entries", missing)),
            preview=self._preview,
            swept=tuple(self._swept()),
        )

    def _swept(self) -> Iterator[str]:
        """What was deleted by its listing; what the engine deletes has a name of the engine's."""
        record = self._place.records.record(self._job)
        for entry in record.entries if record is not None else ():
            swept = entry.kind == "resource" and entry.data["done"] == "deleted" and not entry.data.get("urn")
            # The run's own pod, which no engine knows, goes with the job.
            if swept and not entry.data["name"].endswith(_MISFIT):
                yield f"{entry.data['type']} {entry.data['name']}"

    def _operations(self) -> Sequence[Mapping[str, Any]]:
        """GKE's operations on the job's node pools."""
        pools = tuple(f"/nodePools/{pool.name}" for pool in self._plan.node_pools)
        return Container(self._place.context.client).operations(self._place.outputs.cluster_path, pools)

    def _lines(self) -> list[Mapping[str, Any]]:
        """The first lines of the job's containers in Cloud Logging, as it keeps them."""
        wanted = f'resource.type="k8s_container" AND resource.labels.container_name="{CONTAINER}"'
        wanted += f' AND labels."k8s-pod/encamp-job"="{self._plan.name}"'
        body = {
            "resourceNames": [f"projects/{self._plan.project}"],
            "filter": wanted,
            "orderBy": "timestamp asc",
            "pageSize": _MOST_LINES,
        }
        answer = self._place.context.client.json(Service.LOGGING, "POST", "/v2/entries:list", json=body)
        return list(answer.get("entries") or ())


def _logs(storage: Storage, job: KnownJob) -> Iterator[tuple[str, str]]:
    """Each replica's stored log."""
    folder = f"{job.prefix}logs/"
    for item in storage.objects(job.bucket, folder):
        if item.name.endswith(".log") and item.size <= _LONGEST_LOG:
            content = storage.read(job.bucket, item.name) or b""
            yield item.name.removeprefix(folder).removesuffix(".log"), content.decode(errors="replace")


def _tried(
    ask: Callable[[], Sequence[Mapping[str, Any]]], what: str, missing: dict[str, str]
) -> Sequence[Mapping[str, Any]]:
    try:
        return ask()
    except EncampError as error:
        missing[what] = error.what
        return []
