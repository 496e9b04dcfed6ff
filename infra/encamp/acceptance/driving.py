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
from typing import TYPE_CHECKING, Final

from encamp.acceptance.gathering import gather
from encamp.acceptance.ladder import Kill
from encamp.acceptance.progress import RungResult
from encamp.acceptance.rung_jobs import misfit, plan_rung
from encamp.acceptance.sightings import Sightings
from encamp.acceptance.watcher import JobWatcher
from encamp.ci.preview import Previews
from encamp.cloud.resources import Container
from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.resources import resource
from encamp.run.detail import Detail, kept_step
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.detached import DRIVER_LOG, start_driver
from encamp.run.history.following import Follower
from encamp.run.lifecycle.ended import result_of
from encamp.run.logs.driver_logs import DriverLog
from encamp.run.store.actor import Actor
from encamp.run.store.states import State

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.acceptance.cases import JobCase
    from encamp.acceptance.ladder import Rung
    from encamp.ci.preview import Previewed
    from encamp.cloud.kubernetes import Cluster
    from encamp.run.history.catalogue import KnownJob
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.interrupts import Interrupts
    from encamp.run.store.outputs import EnvironmentOutputs
    from encamp.run.store.records import Records
    from encamp.spec.environment import EnvironmentSpec

#: A driver that is to be killed while it brings its job up is looked at so often.
_QUICK_SECONDS: Final = 0.1
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT")


@dataclass(frozen=True)
class Place:
    """The environment and folder that rungs are run in.

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
        self._beside = False

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
            if self._beside and self._rung.misfit:
                self._place.cluster.delete("pods", self._plan.namespace, misfit(self._plan)["metadata"]["name"])
        known, record = self._known(), self._place.records.record(self._job)
        result = result_of(known, record)
        trouble = "" if State(known.state) in self._rung.ends else f"{known.state}: {known.message}"
        if result.teardown_error is not None:
            trouble = result.teardown_error.what
        seconds = round(time.monotonic() - begun, 1)
        ended = RungResult(self._job, known.state, not trouble, trouble, known.cost, seconds)
        self._sightings.write(self._folder / "sightings.json")
        case = gather(
            self._rung,
            self._place.spec,
            self._plan,
            known,
            record,
            client=self._place.context.client,
            outputs=self._place.outputs,
            sightings=self._sightings,
            refused=watcher.refused,
            preview=self._preview,
        )
        return ended, case

    def _write(self) -> Path:
        """Return the rung's job file, with its trainer beside it."""
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
            sources=(DriverLog(log, self._said), watcher),
            sleep=lambda seconds: time.sleep(_QUICK_SECONDS if hurried and self._driver else seconds),
        )

    def _show(self, line: str) -> None:
        self._place.context.show(f"{self._rung.name}: {line}")

    def _said(self, line: str) -> None:
        """Show a line of the driver's log: neither details, nor the receipt, which has no times before it."""
        at, _, text = line.partition(" ")
        if _TIME.match(at) and not isinstance(kept_step(text), Detail):
            self._show(text)

    def _act(self) -> None:
        """Apply to the job what the rung requires, or a person who interrupts the run."""
        if self._place.interrupts.cancelled.is_set() and not self._cancelled:
            self._cancelled = True
            self._place.records.request_cancel(self._job, Actor.myself().words())
        if self._driver is not None and self._is_time():
            self._show(f"killing its driver, process {self._driver}")
            with suppress(ProcessLookupError):
                os.kill(self._driver, signal.SIGKILL)
            self._driver = None
        if not self._beside and (self._rung.misfit or self._rung.previews) and self._runs():
            self._beside = True
            with suppress(EncampError):
                self._look_beside()

    def _look_beside(self) -> None:
        """Apply the rung's further checks while its job trains."""
        if self._rung.misfit:
            self._place.cluster.create("pods", self._plan.namespace, misfit(self._plan))
        if self._rung.previews:
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

    def _known(self) -> KnownJob:
        storage = Storage(self._place.context.client)
        bucket = self._place.outputs.artifacts_bucket
        catalogue = Catalogue(self._place.records, storage, environment=self._place.stack, bucket=bucket)
        return catalogue.job(self._job)
