"""One run of the ladder: environment up, rungs, questions, everything down, report.

Whatever happens in between, the same ending follows: the run's jobs are brought to their ends by the reaper, an
environment that this run has brought up is taken down, and the report says what Google did until then. A run whose
process was killed is gone on with by the next one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.answers import BeliefAnswer, BeliefState
from encamp.acceptance.cases import EndCase, EnvironmentCase
from encamp.acceptance.driving import Place, RungRun
from encamp.acceptance.environment import Claim, HostEnvironment
from encamp.acceptance.inventory import cluster_path, inventory, probe_bucket
from encamp.acceptance.ladder import ENVIRONMENT
from encamp.acceptance.probe import ask_all
from encamp.acceptance.progress import Progress, RungResult
from encamp.acceptance.rung_jobs import is_of_run, job_id
from encamp.ci.preview import Previews
from encamp.cloud.resources import Container
from encamp.cloud.storage import Storage
from encamp.errors import EncampError, EngineError, ExitCode, TeardownError
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import environment_labels
from encamp.run.lifecycle.interrupts import Interrupts
from encamp.run.lifecycle.reap import ReapOptions, reap, worst
from encamp.run.store.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from encamp.acceptance.cost import PlannedLadder
    from encamp.cloud.kubernetes import Cluster
    from encamp.run.history.context import Context
    from encamp.run.store.outputs import EnvironmentOutputs
    from encamp.run.store.records import Records
    from encamp.spec.environment import EnvironmentSpec

#: Name of what is asked when everything is taken down.
END: Final = "end"


@dataclass(frozen=True)
class AcceptanceRequest:
    """A run that is wanted.

    Attributes:
        root: folder of all runs of this machine.
        ladder: what is run, and at which cost.
        look_seconds: time between two looks at a job.
    """

    spec: EnvironmentSpec
    stack: str
    checkout: Path
    root: Path
    ladder: PlannedLadder
    look_seconds: float


@dataclass
class AcceptanceResult:
    """The result of a run.

    Attributes:
        error: the first error that ended the run before its last rung.
        teardown_error: why something may be left.
        left: what Google still lists.
        cancelled: somebody interrupted it.
    """

    progress: Progress
    error: EncampError | None = None
    teardown_error: EncampError | None = None
    left: tuple[str, ...] = ()
    cancelled: bool = False
    ended: float = field(default_factory=time.time)

    @property
    def broken(self) -> list[BeliefAnswer]:
        """Answers that show a belief to be wrong."""
        return [answer for answer in self.progress.answers if answer.state is BeliefState.BROKEN]

    @property
    def exit_code(self) -> ExitCode:
        """The command's exit code: what may cost money first, then what was found, then what was not looked at."""
        if self.teardown_error is not None:
            return ExitCode.TEARDOWN_FAILED
        if self.cancelled:
            return ExitCode.CANCELLED
        if self.broken:
            return ExitCode.JOB_FAILED
        if self.error is not None:
            return self.error.exit_code
        failed = [one for one in self.progress.rungs.values() if not one.as_believed]
        return ExitCode.INFRASTRUCTURE_FAILED if failed else ExitCode.OK


def run_acceptance(request: AcceptanceRequest, context: Context, progress: Progress) -> AcceptanceResult:
    """Run the ladder, or go on with it, and take down what it made."""
    host = HostEnvironment(context, request.spec, request.stack, request.checkout)
    with Interrupts(context.show, host.interrupt) as interrupts:
        result = AcceptanceResult(progress)
        run = _Run(request, context, progress, host, interrupts)
        try:
            run.climb()
        except EncampError as error:
            result.error = error if not interrupts.cancelled.is_set() else None
        finally:
            # Also on the way of a traceback: a bug of ours must not leave machines behind.
            result.cancelled = interrupts.cancelled.is_set()
            interrupts.ending()
            finish(progress, host, request.spec, context, result)
        return result


def finish(
    progress: Progress, host: HostEnvironment, spec: EnvironmentSpec, context: Context, result: AcceptanceResult
) -> None:
    """End the run's jobs, tear its environment down, and look at what is left."""
    made = progress.claimed
    progress.ended = True
    progress.save()
    try:
        _end_jobs(progress, progress.stack, context)
        Storage(context.client).delete_bucket(probe_bucket(spec, progress.run))
        if made:
            context.show(f"taking the environment {progress.stack} down, which this run has brought up")
            host.tear_down(progress.run)
            progress.claimed = False
            progress.save()
    except EncampError as error:
        result.teardown_error = error
        context.show(f"not everything is taken down: {error}")
    gone = made and result.teardown_error is None
    path = cluster_path(spec)
    left, unknown = inventory(context, spec, progress, environment_gone=gone)
    case = EndCase(left, unknown, environment_gone=gone, operations=operations(context, path) if gone else ())
    progress.add(ask_all(case, END))
    result.left = tuple(f"{kind} {name}" for kind, names in left.items() for name in names)
    if result.left and result.teardown_error is None:
        what = f"Google still lists {', '.join(result.left)}"
        result.teardown_error = TeardownError(what, where=progress.run, hint="run `encamp reap`")
    progress.finished = result.teardown_error is None
    progress.save()
    result.ended = time.time()


def operations(context: Context, cluster: str) -> tuple[Mapping[str, Any], ...]:
    """Return GKE's operations on a cluster, none if they cannot be listed."""
    try:
        return tuple(Container(context.client).operations(cluster, (f"/clusters/{cluster.rpartition('/')[2]}",)))
    except EncampError as error:
        context.show(f"the cluster's operations cannot be listed: {error.what}")
        return ()


def _end_jobs(progress: Progress, stack: str, context: Context) -> None:
    """Cancel the run's jobs that have not ended, and let the reaper bring them to their ends.

    Raises:
        EncampError: one of them could not be brought to its end.
    """
    records = context.records()
    try:
        # Also those of a run of another machine, of which no file is here.
        ours = [record for record in records.records() if is_of_run(record.job_id, progress.run)]
        progress.jobs = list(dict.fromkeys((*progress.jobs, *(record.job_id for record in ours))))
        open_jobs = [record.job_id for record in ours if not record.torn_down]
        for job in open_jobs:
            records.request_cancel(job, Actor.myself().words())
    finally:
        records.close()
    for job in open_jobs:
        findings = reap(context, stack, ReapOptions(wait=True, job=job))
        error = worst(findings)
        if error is not None:
            raise error


class _Run:
    """The part of a run that may fail."""

    def __init__(
        self,
        request: AcceptanceRequest,
        context: Context,
        progress: Progress,
        host: HostEnvironment,
        interrupts: Interrupts,
    ) -> None:
        self._request = request
        self._context = context
        self._progress = progress
        self._host = host
        self._interrupts = interrupts
        self._made_here = False

    def climb(self) -> None:
        """Bring the environment up if it does not exist, probe it, and run rung by rung.

        Raises:
            EncampError: the environment could not be brought up, or somebody interrupted.
        """
        self._up()
        outputs = self._context.environment(self._request.stack)
        cluster = self._context.cluster(outputs)
        # Those of a process of this run that was killed.
        _end_jobs(self._progress, self._request.stack, self._context)
        records = self._context.records()
        try:
            self._ask(outputs, cluster, ENVIRONMENT)
            for planned in self._request.ladder.rungs:
                self._checked()
                self._rung(planned.rung.name, outputs, cluster, records)
        finally:
            records.close()
            cluster.close()

    def _up(self) -> None:
        if self._host.claim() is None and self._host.is_up():
            self._context.show(f"the environment {self._request.stack} is there; it is used and left as it is")
            return
        self._checked()
        self._progress.claimed = True
        self._progress.save()
        self._context.show(f"bringing up the environment {self._request.stack}")
        until = time.time() + self._request.ladder.cost.worst_seconds
        self._host.bring_up(Claim(self._progress.run, until))
        self._made_here = True

    def _ask(self, outputs: EnvironmentOutputs, cluster: Cluster, place: str) -> None:
        """Put every question to the environment."""
        self._context.show("asking the environment")
        previews = Previews(self._request.checkout)
        stack = self._request.stack
        case = EnvironmentCase(
            spec=self._request.spec,
            plan=plan_environment(self._request.spec),
            outputs=outputs,
            client=self._context.client,
            cluster=cluster,
            bucket=self._bucket(),
            operations=operations(self._context, outputs.cluster_path),
            previews={"again": previews.existing(stack), "refreshed": previews.existing(stack, refresh=True)},
            made_here=self._made_here,
        )
        self._progress.add(ask_all(case, place))

    def _bucket(self) -> str | None:
        """Create the bucket for probes; None if the caller may not."""
        spec = self._request.spec
        name = probe_bucket(spec, self._progress.run)
        try:
            Storage(self._context.client).create_bucket(spec.project, name, spec.region, environment_labels(spec))
        except EncampError as error:
            self._context.show(f"no bucket can be made to ask with: {error.what}")
            return None
        return name

    def _rung(self, name: str, outputs: EnvironmentOutputs, cluster: Cluster, records: Records) -> None:
        """Run one rung, unless an earlier process of this run has done so."""
        (rung,) = [one.rung for one in self._request.ladder.rungs if one.rung.name == name]
        before = self._progress.rungs.get(name)
        if before is not None and before.state is not None:
            self._context.show(f"{name}: ran before ({before.state})")
            return
        chosen = job_id(rung, self._progress.run, self._progress.jobs)
        self._context.show(f"{name}: {rung.shows}")
        self._progress.note(name, RungResult(chosen))
        place = Place(
            context=self._context,
            spec=self._request.spec,
            stack=self._request.stack,
            outputs=outputs,
            cluster=cluster,
            records=records,
            interrupts=self._interrupts,
            folder=self._progress.folder,
            look_seconds=self._request.look_seconds,
        )
        try:
            result, case = RungRun(rung, chosen, place).run()
        except EncampError as error:
            self._progress.note(name, RungResult(chosen, trouble=error.what))
            raise
        self._progress.note(name, result)
        self._context.show(f"{name}: {result.state or 'not run'}{f', {result.trouble}' if result.trouble else ''}")
        if case is not None:
            self._progress.add(ask_all(case, name, name))

    def _checked(self) -> None:
        """Raise if somebody interrupted.

        Raises:
            EngineError: somebody did.
        """
        if self._interrupts.cancelled.is_set():
            raise EngineError("interrupted", where=self._progress.run)
