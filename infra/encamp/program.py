"""The program of ``pulumi up``: an environment program and a job program, told apart by the stack's config.

This is the only reader of ``pulumi.Config``. It knows neither which cloud serves it nor whether anybody watches:
``up`` creates and returns, it never waits for a training.

Config of an environment's stack: ``gcp:project`` and ``encamp:environment`` (``spec/environment/``).
Config of a job's stack: ``encamp:environmentStack``, ``encamp:job`` (``spec/job_stack.py``), and ``encamp:deadline``
in seconds since the epoch where somebody decided it before, and ``encamp:jobFolder`` where an inline job came from a
file, which its package path is relative to, and ``encamp:checked`` where a driver has looked at the job's data and has
shown the plan's warnings and its cost.
``encamp:notCompared`` lists inputs that a preview without the stack's key leaves uncompared.
``encamp:name`` is the cloud name that a job has already; a stack that exists keeps the one that its outputs say.
What of ``encamp:job`` is secret there stays one: in the engine's state, its previews and its messages.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.runtime.config import is_config_secret

from encamp.components.renamed import keep_renamed
from encamp.components.uncompared import leave_uncompared
from encamp.errors import EncampError, PlanError, UsageError
from encamp.project import find_project, project_folder
from encamp.redaction import redacted, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.plan.summary import JobSummary
    from encamp.spec.environment import EnvironmentSpec
#: Seconds between tries to read the stack's own state.
_PAUSES = (0.1, 0.3, 1.0, 3.0)


def main() -> None:
    """Declare the stack's resources.

    Raises:
        pulumi.RunError: what someone wrote is wrong; the engine prints the message without a traceback.
    """
    config = pulumi.Config("encamp")
    keep_renamed()
    leave_uncompared(config.get_object("notCompared") or [])
    try:
        _declare(config)
    except EncampError as error:
        raise pulumi.RunError(_shown(str(error), config)) from None


def _declare(config: pulumi.Config) -> None:
    if config.get("job") is not None:
        _job(config)
    elif config.get("environment") is not None:
        _environment(config)
    else:
        raise UsageError(
            "the stack's config holds neither encamp:environment nor encamp:job",
            where=f"stacks/Pulumi.{pulumi.get_stack()}.yaml",
            hint="see stacks/Pulumi.sandbox.yaml for an environment and stacks/Pulumi.digits.yaml for a job",
        )


def _environment(config: pulumi.Config) -> None:
    from encamp.components.environment import PlannedEnvironment  # noqa: PLC0415 - a job's stack needs other components
    from encamp.plan.environment.changes import MADE_WITH, changes, made_with, refuse  # noqa: PLC0415
    from encamp.plan.environment.planning import plan_environment  # noqa: PLC0415
    from encamp.public_components.telling import refuse_second_environment, tell_environment  # noqa: PLC0415
    from encamp.spec.environment import parse_environment, with_files  # noqa: PLC0415

    spec = parse_environment(
        config.require_object("environment"),
        project=pulumi.Config("gcp").get("project"),
        source=f"stack {pulumi.get_stack()}, encamp:environment",
    )
    if (project := find_project()) is not None:
        spec = with_files(spec, project)
    plan = plan_environment(spec)
    refuse_second_environment(spec)
    found = changes(_own_outputs().get(MADE_WITH) or {}, spec)
    refuse(found, where=f"stacks/Pulumi.{pulumi.get_stack()}.yaml")
    tell_environment(spec, plan, map(str, found))
    acts_as = pulumi.Config("gcp").get("impersonateServiceAccount")
    for name, value in PlannedEnvironment(plan.name, plan, acts_as=acts_as).outputs.items():
        pulumi.export(name, value)
    pulumi.export(MADE_WITH, made_with(spec))


def _job(config: pulumi.Config) -> None:
    from encamp.components.training_job import PlannedJob  # noqa: PLC0415 - see _environment
    from encamp.own_cluster import own_kubeconfig  # noqa: PLC0415
    from encamp.packaging.local import local_packages  # noqa: PLC0415
    from encamp.plan.job import plan_job  # noqa: PLC0415
    from encamp.public_components.telling import tell_job  # noqa: PLC0415
    from encamp.spec.environment import load_environment  # noqa: PLC0415
    from encamp.spec.job_stack import read_job_stack  # noqa: PLC0415

    project = project_folder()
    environment_stack = config.require("environmentStack")
    environment = load_environment(environment_stack, project)
    _same_project(environment, pulumi.Config("gcp").get("project"))
    folder = config.get("jobFolder")
    found = read_job_stack(
        config.require_object("job"),
        repository=project,
        stack=pulumi.get_stack(),
        folder=Path(folder) if folder else None,
    )
    # A driver's stacks are new; others may have been brought up before.
    is_new = bool(config.get_bool("checked"))
    earlier = None if is_new else _earlier(_own_outputs())
    name = config.get("name") or (earlier.name if earlier is not None else None)
    plan = plan_job(found.job, environment, packages=local_packages(found), name=name, earlier=earlier)
    _refuse_ended(plan)
    if not is_new:
        tell_job(plan, lambda text: _shown(text, config))
        _check_data(plan, config)
    outputs = pulumi.StackReference(_full_name(environment_stack))
    job = PlannedJob(
        plan.name,
        plan,
        cluster=outputs.require_output("cluster"),
        kubeconfig=own_kubeconfig(environment.cluster_path) or outputs.require_output("kubeconfig"),
        cluster_path=environment.cluster_path,
        deadline=config.get("deadline") or str(int(time.time()) + plan.limits.expiry_seconds),
        secret=_is_secret(config),
    )
    for name, value in job.outputs.items():
        pulumi.export(name, value)


def _full_name(stack: str) -> str:
    """The full name of a stack of this project; a file backend calls its only organization ``organization``."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"


def _own_outputs() -> Mapping[str, Any]:
    """Return the outputs of this stack's last ``up``; empty before the first.

    The engine writes the same state meanwhile, and a backend of files is read in the middle of it: hence the retries.
    """
    stack = _full_name(pulumi.get_stack())
    for pause in _PAUSES:
        # The SDK knows one kind of error for all calls that fail.
        with contextlib.suppress(Exception):
            return _outputs(stack)
        time.sleep(pause)
    return _outputs(stack)


def _earlier(outputs: Mapping[str, Any]) -> JobSummary | None:
    """Return the summary of this stack's job as of its last ``up``; None before the first.

    Raises:
        PlanError: it is damaged, and a plan without it could replace what a running job has.
    """
    from encamp.plan.summary import MARK, JobSummary  # noqa: PLC0415 - see _environment

    found = JobSummary.read(outputs)
    if found is None and MARK in outputs:
        raise PlanError(
            "the outputs of the stack's last up hold no summary of its job that can be read",
            where=f"stack {pulumi.get_stack()}",
            hint="end the job by `encamp reap`, or by `pulumi destroy`",
        )
    return found


def _outputs(stack: str) -> Mapping[str, Any]:
    answer: Any = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": stack}).value
    found: Mapping[str, Any] = answer["outputs"]
    return found


def _is_secret(config: pulumi.Config) -> bool:
    """Whether anything of the job was given with ``pulumi config set --secret``; of a key the engine tells no more."""
    return is_config_secret(config.full_key("job"))


def _shown(text: str, config: pulumi.Config) -> str:
    """A message as it may be read: a rule quotes what it refuses, and that may be what is secret."""
    if not _is_secret(config):
        return redacted(text)
    try:
        values = list(texts(config.get_object("job")))
    except (pulumi.ConfigTypeError, ValueError):
        values = [config.get("job") or ""]
    return redacted(text, values)


def _check_data(plan: JobPlan, config: pulumi.Config) -> None:
    """Say in the preview what the job's data lacks, before anything is made."""
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415 - wanted by plain `pulumi` only
    from encamp.preflight import check_job  # noqa: PLC0415

    for warning in check_job(plan, GoogleClient()):
        pulumi.log.warn(_shown(warning, config))


def _same_project(environment: EnvironmentSpec, project: str | None) -> None:
    """A job whose stack names another project than its environment would leave half of itself elsewhere."""
    if project is not None and project != environment.project:
        raise PlanError(
            f"the stack's project is {project}, its environment's is {environment.project}",
            where="gcp:project",
            hint="leave gcp:project out of the job's stack, or name the same one",
        )


def _refuse_ended(plan: JobPlan) -> None:
    """Job ids are unique for ever: one with a receipt has ended (spec 1.1)."""
    import pulumi_gcp as gcp  # noqa: PLC0415 - a job that cannot be planned needs no provider

    receipt = f"{plan.storage.prefix}receipt.json"
    try:
        found = gcp.storage.get_bucket_objects(bucket=plan.storage.bucket, prefix=receipt)
    except Exception as error:
        # The SDK tells failed calls apart by their words alone.
        if "Error 404" not in str(error):
            raise
        raise UsageError(
            f"the environment {plan.environment} is not up: there is no bucket gs://{plan.storage.bucket}",
            where="encamp:environmentStack",
            hint=f"encamp environment up {plan.environment}",
        ) from None
    if found.bucket_objects:
        raise UsageError(
            f"job {plan.job_id} has ended; its receipt is gs://{plan.storage.bucket}/{receipt}",
            where="encamp:job.jobId",
            hint="give the job another id: jobId in the stack's config or in the job file",
        )
