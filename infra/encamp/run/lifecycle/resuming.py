"""Bring-up of a job whose driver was told to end before the training began: nothing of the job is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.run.lifecycle.bring_up import BringUp
from encamp.run.lifecycle.ended import FAILURE, failure_data
from encamp.run.lifecycle.ending import job_teardown
from encamp.run.lifecycle.job_stack import JobStack
from encamp.run.lifecycle.preparation import JobPreparation, OverdueError
from encamp.run.store.journal import LEFT, RESUMED, RETRY
from encamp.run.store.records import LeaseLostError
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.engine.job_engine import JobEngine
    from encamp.run.history.context import Context
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import CancelRequest, Lease, Records


class LeftError(EncampError):
    """This process was told to end as well: the job is on record as one to go on with."""


@dataclass(frozen=True)
class Resumption:
    """The rest of one job's bringing up.

    Attributes:
        kubeconfig: by which everybody reaches the environment's cluster.
        overdue: how the job ends because it waits for too long, None while it does not.
        cancel: the request to cancel it, if there is one by now.
        leaving: whether this process is to let go of it.
        woken: set when any of this has changed.
    """

    context: Context
    records: Records
    lease: Lease
    intent: Intent
    engine: JobEngine
    cluster: Cluster
    kubeconfig: str
    overdue: Callable[[], Outcome | None]
    cancel: Callable[[], CancelRequest | None]
    leaving: Callable[[], bool]
    woken: threading.Event

    def run(self) -> Outcome | None:
        """Bring the job up; return its outcome if it cannot train, None if it trains.

        Raises:
            LeaseLostError: another driver has the job.
            LeftError: it is left to the next driver.
        """
        folder = self.context.job_folder(self.intent.name)
        stack = JobStack(
            self.intent,
            self.engine,
            folder,
            job=self.intent.job or {},
            job_folder=None,
            kubeconfig=self.kubeconfig,
            reached=self.cluster.kubeconfig,
            check=self._check,
        )
        self.records.append(self.lease, RESUMED, {})
        try:
            stack.restore_workspace()
            BringUp(self._preparation(stack), self.context.show, self._note_retry).run()
        except (LeaseLostError, LeftError):
            raise
        except OverdueError as error:
            return error.outcome
        except EncampError as error:
            return self._failed(error)
        return None

    def _preparation(self, stack: JobStack) -> JobPreparation:
        teardown = job_teardown(
            self.context,
            self.records,
            self.lease,
            self.intent,
            cluster=self.cluster,
            engine=self.engine,
            committed=False,
        )
        return JobPreparation(
            self.intent,
            self.engine,
            teardown,
            Storage(self.context.client),
            bring_up=stack.up,
            check_job=self._check,
            overdue=self.overdue,
            cancelled=self.woken,
        )

    def _check(self) -> None:
        """Raise unless the job is this process's, and nobody cancels or takes it.

        Raises:
            EncampError: it is not, or somebody does.
        """
        job = self.intent.job_id
        if not self.records.holds(self.lease):
            raise LeaseLostError(job)
        if (request := self.cancel()) is not None:
            why = f"{request.by} cancelled it"
            raise OverdueError(Outcome(State.CANCELLED, why), job)
        if self.leaving():
            self.records.append(self.lease, LEFT, {})
            raise LeftError("it is left to the next driver", where=job)

    def _failed(self, error: EncampError) -> Outcome:
        self.records.append(self.lease, FAILURE, failure_data(error))
        return Outcome(State.FAILED, f"the infrastructure failed: {error.what}")

    def _note_retry(self, entry: dict[str, Any]) -> None:
        self.records.append(self.lease, RETRY, entry)
