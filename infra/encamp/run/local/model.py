"""Data of a local run: replicas, options, and each replica's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from encamp.duration import Duration
    from encamp.process import OutputLine, ProcessOutcome

#: Seconds that replicas have to end after SIGTERM.
GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class LocalReplica:
    """One replica of a local run.

    Attributes:
        name: as plans have it, such as ``worker-0``; the primary is ``master-0`` also where TF_CONFIG says chief.
        argv: interpreter, module and arguments, ``--job-dir`` included.
        env: its whole environment.
        cwd: where it starts.
    """

    name: str
    role: Role
    index: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    @property
    def primary(self) -> bool:
        """Whether its end is the job's end."""
        return self.role is Role.MASTER


@dataclass(frozen=True)
class LocalRunOptions:
    """Options of a run for its replicas.

    Attributes:
        grace_seconds: from SIGTERM to SIGKILL, for all replicas at once.
        keep_going: let the job go on when a replica other than the primary fails, as the old client did.
        max_replica_restarts: how often one replica is started again after an exit code that is worth it.
        max_restarts: how often the whole job is tried again after that.
        custom_container: whether the job's image is the user's own: SIGABRT is worth a retry there only.
        restart_all: whether a worker's restart restarts the whole job (``resilientToWorkerRestart``).
        max_running_time: after how long the job is cancelled, None for never.
    """

    grace_seconds: float = GRACE_SECONDS
    keep_going: bool = False
    max_replica_restarts: int = 0
    max_restarts: int = 0
    custom_container: bool = False
    restart_all: bool = False
    max_running_time: Duration | None = None


@dataclass(frozen=True)
class ReplicaEnd:
    """A replica that has ended for good.

    Attributes:
        outcome: of its last start.
        last_lines: its last lines, without what steers a terminal; empty lines left out.
        restarts: how often it was started again, with its job or alone.
        stopped: whether it was ended by us, so that its exit code says nothing about it.
    """

    name: str
    outcome: ProcessOutcome
    last_lines: tuple[str, ...] = ()
    restarts: int = 0
    stopped: bool = False


class Console(Protocol):
    """The listener of a local run. Called from the event loop's thread alone; must not block for long."""

    def started(self, replica: LocalReplica, restarts: int) -> None:
        """Show that a process of the replica runs, after so many restarts."""

    def line(self, replica: str, piece: OutputLine) -> None:
        """Show a line of a replica, or a piece of one; standard output and standard error in the order of writing."""

    def raw(self, replica: str, data: bytes) -> None:
        """Take the same bytes as they came, before they are cut into lines."""

    def tail(self, replica: str) -> tuple[str, ...]:
        """Return the last lines of a replica so far, as in ``ReplicaEnd.last_lines``."""

    def paused(self, replica: str) -> None:
        """Note that a process has ended and its output is complete; it may be started again."""

    def ended(self, end: ReplicaEnd) -> None:
        """Note that the replica has ended for good."""

    def note(self, text: str) -> None:
        """Show a line of the run itself."""

    def summary(self, ends: Sequence[ReplicaEnd]) -> None:
        """Show that all have ended, in the order of the replicas; those that never started are left out."""
