"""``encamp local train``: a trainer, or a whole job file, as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from encamp.cli.stack import stack_option
from encamp.errors import UsageError
from encamp.run.local.tf_config import DEFAULT_COUNTS
from encamp.spec.roles import COUNTED_ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from encamp.run.local.console import RunConsole
    from encamp.run.local.job import LocalJob, LocalJobRequest
    from encamp.run.local.model import LocalRunOptions
    from encamp.run.local.prepare import Machine, Prepared

_ARGUMENTS = "encamp.arguments"
#: How long somebody has to read what was written before a signal ended the run.
_PATIENCE_SECONDS = 2.0
_SIGNALLED = 128
_COUNTS = {role: f"{role.field}_count" for role in COUNTED_ROLES}
#: Flags that mean nothing without a job file.
_OF_FILES = ("max_replicas", "parallel_trials", "max_trials", "resume_previous_job_id", "environment", "job_id")


@click.group(name="local")
def command() -> None:
    """Train on this machine, before paying for anything."""


class _Train(click.Command):
    """Takes what follows the first ``--`` for the trainer."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the trainer's arguments apart."""
        own = args
        if "--" in args:
            at = args.index("--")
            ctx.meta[_ARGUMENTS] = tuple(args[at + 1 :])
            own = args[:at]
        try:
            return super().parse_args(ctx, own)
        except click.UsageError as error:
            hint = "arguments of the trainer stand after --, such as: ... -- --epochs=3"
            if ctx.meta.get(_ARGUMENTS) is not None:
                raise
            raise UsageError(error.format_message().rstrip("."), hint=hint) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the trainer's arguments."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


def _count_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add an option for the number of replicas of each role that a job file counts."""
    for role in reversed(COUNTED_ROLES):
        text = f"{role.words.capitalize()}s of the cluster.  [default: {DEFAULT_COUNTS[role]}]"
        verb = click.option(f"--{role.flag}-count", type=int, metavar="N", help=text)(verb)
    return verb


@command.command(cls=_Train)
@click.argument("file", required=False, metavar="[JOB.yaml]", type=click.Path(path_type=Path))
@click.option("--module-name", metavar="MODULE", help="Module that is run, such as trainer.task.")
@click.option("--package-path", metavar="FOLDER", help="Trainer package; replicas start in the folder above it.")
@click.option("--job-dir", metavar="DIR", help="Where the job writes, here or gs://...; passed on as --job-dir.")
@click.option("--distributed", is_flag=True, help="Run a cluster, each replica told of the others by TF_CONFIG.")
@_count_options
@click.option("--start-port", type=int, metavar="PORT", help="First port of the cluster.  [default: free ones]")
@click.option("--max-replicas", type=int, metavar="N", help="With JOB.yaml: at most N replicas of each role.")
@click.option("--parallel-trials", type=int, metavar="N", help="Trials at a time.  [JOB.yaml: maxParallelTrials]")
@click.option("--max-trials", type=int, metavar="N", help="With JOB.yaml: trials of a tuning job.")
@click.option("--resume-previous-job-id", metavar="ID", help="With JOB.yaml: tuning job of here whose study goes on.")
@click.option(
    "--max-restarts", type=int, metavar="N", help="Restarts of a replica.  [JOB.yaml: as in the cloud, else 0]"
)
@click.option("--keep-going", is_flag=True, help="Let the job go on when another replica than the primary fails.")
@click.option("--grace", type=float, default=5.0, metavar="SECONDS", show_default=True, help="From SIGTERM to SIGKILL.")
@click.option("--log-dir", metavar="DIR", type=click.Path(path_type=Path), help="Keep each replica's output in a file.")
@click.option("--python", metavar="PROGRAM", help="Python that runs the trainer.  [default: python of PATH]")
@stack_option("With JOB.yaml: the environment that it is planned for.")
@click.option("--job-id", metavar="ID", help="With JOB.yaml: id of the job.")
@click.pass_context
def train(ctx: click.Context, *, log_dir: Path | None, **given: Any) -> None:
    """Run a trainer here: one process, a cluster (--distributed), or every replica of JOB.yaml, tuning included.

    Arguments after -- go to the trainer. The exit code is the primary replica's; of a tuning job 0 once a trial has
    succeeded. 1: another replica or the study failed, or the time was up. 2: bad input, and nothing was started.
    128 + n: ended by signal n.
    """
    from encamp.run.local.checks import check_counts, check_own_flags  # noqa: PLC0415 - help pages need none of it
    from encamp.run.local.console import opened_console  # noqa: PLC0415
    from encamp.run.local.guardian import guarded  # noqa: PLC0415
    from encamp.run.local.prepare import Machine  # noqa: PLC0415

    arguments: tuple[str, ...] | None = ctx.meta.get(_ARGUMENTS)
    check_counts({f"--{name.replace('_', '-')}": given[name] for name in ("max_replicas", "max_restarts", "grace")})
    machine = Machine(os.environ, Path.cwd(), given["python"])
    with ExitStack() as resources:
        make = _of_flags if given["file"] is None else _of_file
        wished = make(given, arguments, machine, resources)
        flags = [name for parameter in ctx.command.params for name in parameter.opts]
        family = resources.enter_context(guarded())
        console = resources.enter_context(opened_console(wished.names, os.environ, logs=log_dir))
        for note in (*check_own_flags(arguments or (), flags), *wished.notes):
            console.note(note)
        code = asyncio.run(wished.run(console, family))
        console.patience = _PATIENCE_SECONDS if code > _SIGNALLED else None
    sys.exit(code)


@dataclass(frozen=True)
class _Wished:
    """The training that is to run.

    Attributes:
        names: of its replicas as far as they are known before.
        run: runs it to its end, given the console and the family's mark; gives the exit code.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...]
    run: Callable[[RunConsole, str], Coroutine[Any, Any, int]]


def _job(found: Prepared, options: LocalRunOptions) -> _Wished:
    """Replicas of one job."""
    from encamp.run.local.runner import run  # noqa: PLC0415

    return _Wished(
        tuple(replica.name for replica in found.replicas),
        found.notes,
        lambda console, family: run(found.replicas, options, console, family=family),
    )


def _study(
    job: LocalJob, request: LocalJobRequest, given: dict[str, Any], options: LocalRunOptions, work: ExitStack
) -> _Wished:
    """Trials of a tuning job."""
    from encamp.run.local.job import RESULTS  # noqa: PLC0415
    from encamp.run.local.slots import make_slots  # noqa: PLC0415
    from encamp.run.local.study import run_study  # noqa: PLC0415

    slots = make_slots(job, request, given["parallel_trials"], work)
    results = Path.cwd() / RESULTS
    return _Wished((), slots.notes, lambda console, family: run_study(slots, options, console, results, family=family))


def _of_flags(
    given: dict[str, Any], arguments: tuple[str, ...] | None, machine: Machine, resources: ExitStack
) -> _Wished:
    """Return the training that the old client's flags describe."""
    from encamp.run.local.prepare import FlagRequest, prepare_flags, refuse_flags  # noqa: PLC0415

    if given["module_name"] is None:
        raise UsageError(
            "no trainer is named",
            where="--module-name",
            hint="name a module and its package, such as --module-name trainer.task --package-path trainer, "
            "or a job file",
        )
    refuse_flags(
        _named(given, *_OF_FILES),
        "says something about a job file, and none is named",
    )
    request = FlagRequest(
        given["module_name"],
        given["package_path"],
        given["job_dir"],
        arguments or (),
        distributed=given["distributed"],
        counts={role: given[name] for role, name in _COUNTS.items()},
        start_port=given["start_port"],
    )
    return _job(prepare_flags(request, machine, resources), _options(given, 0, 0))


def _of_file(
    given: dict[str, Any], arguments: tuple[str, ...] | None, machine: Machine, resources: ExitStack
) -> _Wished:
    """Return the training that a job file describes, some of its fields replaced by flags."""
    from encamp.cli.job_flags import ARGS_PATH, job_flags  # noqa: PLC0415
    from encamp.cli.job_input import JobInput  # noqa: PLC0415
    from encamp.jobs.target import environment_named  # noqa: PLC0415
    from encamp.run.local.job import LocalJobRequest, local_job, prepared  # noqa: PLC0415
    from encamp.run.local.prepare import refuse_flags  # noqa: PLC0415

    refuse_flags(_named(given, "distributed"), "a job file says itself which replicas there are")
    over = (*_COUNTS.values(), "module_name", "package_path", "max_trials", "resume_previous_job_id")
    chosen = {name: value for name, value in _named(given, *over).items() if value is not None}
    values: dict[Any, Any] = {
        flag.path: flag.read(str(chosen[flag.name])) for flag in job_flags() if flag.name in chosen
    }
    if arguments is not None:
        values[ARGS_PATH] = list(arguments)
    stamp = time.strftime("%Y%m%d_%H%M%S")
    found = JobInput.made(given["file"], None, values, machine.working).load(given["job_id"], suffix=stamp)
    environment = environment_named(given["environment"]) if given["environment"] is not None else None
    request = LocalJobRequest(given["job_dir"], given["max_replicas"], given["start_port"], environment)
    job = local_job(found, request, machine, resources)
    limits, scheduling = job.plan.limits, job.plan.training_input.get("scheduling") or {}
    options = replace(
        _options(given, limits.max_replica_restarts, limits.max_restarts),
        custom_container=any(group.custom_container for group in job.plan.groups),
        restart_all=bool(scheduling.get("resilient_to_worker_restart")),
        max_running_time=limits.max_running_time,
    )
    if job.plan.study is not None:
        return _study(job, request, given, options, resources)
    refuse_flags(_named(given, "parallel_trials"), "the job file tunes nothing, so that it has no trials")
    return _job(prepared(job, request, resources).prepared, options)


def _options(given: dict[str, Any], replica_restarts: int, job_restarts: int) -> LocalRunOptions:
    """How the run treats its replicas; ``--max-restarts`` bounds both kinds of restarts."""
    from encamp.run.local.model import LocalRunOptions  # noqa: PLC0415

    most: int | None = given["max_restarts"]
    return LocalRunOptions(
        grace_seconds=given["grace"],
        keep_going=given["keep_going"],
        max_replica_restarts=replica_restarts if most is None else most,
        max_restarts=job_restarts if most is None else most,
    )


def _named(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Values by the names of their flags."""
    return {f"--{name.replace('_', '-')}": given[name] for name in names}
