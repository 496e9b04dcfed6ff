"""Preparation of replicas from a command's input: everything is checked first, nothing is started.

Ports and folders that a run holds go with the ``ExitStack`` that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.run.local.checks import check_counts, check_job_dir, check_module, package_root
from encamp.run.local.devices import divide, local_gpus
from encamp.run.local.interpreter import Interpreter, interpreter
from encamp.run.local.ports import reserve
from encamp.run.local.tf_config import DEFAULT_COUNTS, Host, flag_replicas, ports_needed
from encamp.spec.roles import COUNTED_ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from encamp.run.local.devices import DevicePlan
    from encamp.run.local.model import LocalReplica


#: Each takes three of the command's file descriptors, of which systems grant 1024.
MOST_REPLICAS = 256


@dataclass(frozen=True)
class FlagRequest:
    """The old client's flags; None for a flag that was not given.

    Attributes:
        args: what followed ``--``.
        counts: replicas of each role beside the primary.
    """

    module: str
    package_path: str | None = None
    job_dir: str | None = None
    args: tuple[str, ...] = ()
    distributed: bool = False
    counts: Mapping[Role, int | None] = field(default_factory=dict)
    start_port: int | None = None


@dataclass(frozen=True)
class Machine:
    """The environment of a local run.

    Attributes:
        environ: the command's own environment.
        working: the folder that it was called in.
        python: ``--python``, None for the one of PATH.
    """

    environ: Mapping[str, str]
    working: Path
    python: str | None = None

    def interpreter(self) -> Interpreter:
        """Return the Python of replicas."""
        return interpreter(self.python, self.environ, self.working)


@dataclass(frozen=True)
class Prepared:
    """Replicas to start, and the messages to show before."""

    replicas: tuple[LocalReplica, ...]
    notes: tuple[str, ...] = ()


def prepare_flags(request: FlagRequest, machine: Machine, resources: ExitStack) -> Prepared:
    """Return the replicas of the old client's flags.

    Raises:
        UsageError: what is wrong with them, or with what they name.
        EngineError: there are no free ports.
    """
    given = {f"--{role.flag}-count": request.counts.get(role) for role in COUNTED_ROLES}
    check_counts(given)
    python = machine.interpreter()
    root = _root(request, machine)
    check_module(request.module, root, python.search)
    check_job_dir(request.job_dir, root)
    args = (*request.args, *(("--job-dir", request.job_dir) if request.job_dir else ()))
    host = Host(python.program, root, machine.environ)
    if not request.distributed:
        idle = [name for name, count in {**given, "--start-port": request.start_port}.items() if count]
        notes = (f"{', '.join(idle)}: of no effect without --distributed",) if idle else ()
        return Prepared(
            flag_replicas(request.module, args, host, counts=None, primary=python.primary_name, ports=()), notes
        )
    counts = {**DEFAULT_COUNTS, **{role: count for role, count in request.counts.items() if count is not None}}
    check_number(1 + sum(counts.values()))
    ports = resources.enter_context(reserve(ports_needed(counts), request.start_port)).numbers
    replicas = flag_replicas(request.module, args, host, counts=counts, primary=python.primary_name, ports=ports)
    return with_devices(replicas, divide(local_gpus(machine.environ), roles(replicas)))


def roles(replicas: Sequence[LocalReplica]) -> dict[str, Role]:
    """Return each replica's role by its name."""
    return {replica.name: replica.role for replica in replicas}


def with_devices(replicas: Sequence[LocalReplica], devices: DevicePlan, notes: Sequence[str] = ()) -> Prepared:
    """Return replicas that see their own GPUs, with all that is to be told."""
    seeing = tuple(replace(replica, env={**replica.env, **devices.env.get(replica.name, {})}) for replica in replicas)
    return Prepared(seeing, (*notes, *devices.notes))


def _root(request: FlagRequest, machine: Machine) -> Path:
    """Return the folder that replicas start in: above the package, else above the working directory.

    A module that lies in the working directory and not above it is run from there, which the old client could not.
    """
    if request.package_path is not None:
        return package_root(request.package_path, machine.working)
    first = request.module.partition(".")[0]
    here, above = ((folder / first).is_dir() or (folder / f"{first}.py").is_file() for folder in _candidates(machine))
    return machine.working if here and not above else machine.working.parent


def _candidates(machine: Machine) -> tuple[Path, Path]:
    return machine.working, machine.working.parent


def check_number(replicas: int) -> None:
    """Refuse more replicas than one command can watch.

    Raises:
        UsageError: there are.
    """
    if replicas > MOST_REPLICAS:
        raise UsageError(
            f"{replicas} replicas are more than run here at once ({MOST_REPLICAS})",
            hint="lower the counts; --max-replicas does so for a job file",
        )


def refuse_flags(given: Mapping[str, object], why: str) -> None:
    """Refuse flags that were given where they mean nothing.

    Raises:
        UsageError: naming them.
    """
    named = [name for name, value in given.items() if value not in (None, False)]
    if named:
        raise UsageError(why, where=", ".join(named), hint=f"leave {'it' if len(named) == 1 else 'them'} out")
