"""The offline review of a stack, without engine, cloud or network: its plan, its cost, and findings of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.ci.touched import StackKind, holds_secret
from encamp.errors import EncampError, SpecError
from encamp.packaging.local import local_packages
from encamp.plan.cost.idle import idle_cost
from encamp.plan.cost.prices import price_table
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.plan.policy import PolicyError
from encamp.spec.environment import load_environment
from encamp.spec.job_stack import read_job_stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.ci.touched import StackConfig
    from encamp.plan.cost.idle import IdleCost
    from encamp.plan.cost.model import CostPlan
    from encamp.plan.model import JobPlan


@dataclass(frozen=True)
class Offline:
    """The offline facts of a stack.

    Attributes:
        plan: of a job's stack that can be planned, else None.
        idle: the cost of an environment without jobs; None for other stacks, or if it cannot be planned.
        refused: why it cannot be, a text a problem, in the words of the rules; empty if it can.
        warnings: what is accepted, but worth knowing.
    """

    plan: JobPlan | None = None
    idle: IdleCost | None = None
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def cost(self) -> CostPlan | None:
        """The job's cost, None for other stacks."""
        return self.plan.cost if self.plan is not None else None


def look(stack: StackConfig, tree: Path) -> Offline:
    """Plan a stack as a tree has it."""
    if holds_secret(stack.config.get(f"encamp:{stack.kind}")):
        return Offline(
            warnings=(f"the {stack.kind} holds secrets that only the engine can read: it is not planned here",)
        )
    try:
        if stack.kind is StackKind.ENVIRONMENT:
            spec = load_environment(stack.name, tree)
            environment = plan_environment(spec)
            return Offline(idle=idle_cost(environment, price_table(spec)), warnings=tuple(environment.warnings))
        if stack.kind is StackKind.JOB:
            return _job(stack, tree)
    except EncampError as error:
        return Offline(refused=tuple(_words(error)))
    return Offline(refused=(f"{stack.file}: holds neither encamp:environment nor encamp:job",))


def _job(stack: StackConfig, tree: Path) -> Offline:
    job = stack.config["encamp:job"]
    if not isinstance(job, dict):
        return Offline(refused=(f"{stack.file}: encamp:job must be a mapping",))
    if not stack.environment:
        return Offline(refused=(f"{stack.file}: encamp:environmentStack is missing",))
    found = read_job_stack(job, repository=tree, stack=stack.name)
    plan = plan_job(found.job, load_environment(stack.environment, tree), packages=local_packages(found))
    return Offline(plan, warnings=tuple(plan.warnings))


def _words(error: EncampError) -> Iterator[str]:
    if isinstance(error, PolicyError):
        yield from (f"{finding}\n  try: {finding.hint}" for finding in error.findings if finding.refuses)
        return
    if not isinstance(error, SpecError):
        yield str(error)
        return
    for problem in error.problems:
        place = f"{error.source}:{problem.line}" if problem.line else error.source
        hint = f"\n  try: {problem.hint}" if problem.hint else ""
        yield " ".join(part for part in (f"{place}:", f"{problem.path}:" if problem.path else "") if part) + (
            f" {problem.message}{hint}"
        )
