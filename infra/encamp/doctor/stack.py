"""The examined stack: its plan, and where its state and its secrets are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.packaging.local import local_packages
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import load_environment
from encamp.spec.job_stack import read_job_stack
from encamp.spec.loading import load_document
from encamp.spec.stack_files import stack_files

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.plan.model import EnvironmentPlan, JobPlan
    from encamp.spec.environment import EnvironmentSpec


@dataclass(frozen=True)
class Stack:
    """A committed stack.

    Attributes:
        environment: the environment that it is, or that its job runs in.
        job: its job, None if it is an environment's.
        secrets_provider: as its config names it, None if its secrets have a passphrase or none are kept.
        has_salt: whether its config holds the salt of a passphrase.
    """

    name: str
    spec: EnvironmentSpec
    environment: EnvironmentPlan
    job: JobPlan | None
    secrets_provider: str | None
    has_salt: bool


def load_stack(name: str, repository: Path) -> Stack:
    """Read a committed stack and plan what it would make.

    Raises:
        UsageError: there is no such stack, or it holds nothing of encamp's.
        SpecError: its environment or its job is wrong.
        PlanError: the job cannot run there.
    """
    known = stack_files(repository / "stacks")
    if name not in known:
        raise UsageError(f"there is no stack {name!r}", where="stacks/", hint=f"known: {', '.join(known) or 'none'}")
    source = f"stacks/Pulumi.{name}.yaml"
    data = load_document(repository / source, source=source).data
    config = data.get("config")
    config = config if isinstance(config, dict) else {}
    if "encamp:environment" in config:
        spec, job = load_environment(name, repository), None
    elif "encamp:job" in config and isinstance(config.get("encamp:environmentStack"), str):
        spec = load_environment(config["encamp:environmentStack"], repository)
        job = _job(config["encamp:job"], spec, name, repository)
    else:
        what = "holds neither encamp:environment, nor encamp:job with encamp:environmentStack"
        raise UsageError(what, where=source)
    provider = data.get("secretsprovider")
    return Stack(
        name=name,
        spec=spec,
        environment=plan_environment(spec),
        job=job,
        secrets_provider=str(provider) if provider else None,
        has_salt=bool(data.get("encryptionsalt")),
    )


def _job(written: Any, spec: EnvironmentSpec, stack: str, repository: Path) -> JobPlan:
    found = read_job_stack(written, repository=repository, stack=stack)
    return plan_job(found.job, spec, packages=local_packages(found))
