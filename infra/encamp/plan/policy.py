"""Whether a planned job keeps the rules of its environment's organisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from encamp.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.policy import PolicyRuleSpec
    from encamp.spec.roles import Role


@dataclass(frozen=True)
class PolicyFinding:
    """A rule that a job breaks.

    Attributes:
        rule: its name, or that of its limit.
        where: dotted path of what breaks it in the job file.
        what: what is wrong.
        hint: what to try.
        message: the organisation's own words, empty if there are none.
        refuses: whether the job may not run for it.
    """

    rule: str
    where: str
    what: str
    hint: str
    message: str
    refuses: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.what} (rule {self.rule}){f': {self.message}' if self.message else ''}"


class PolicyError(PlanError):
    """A job breaks rules of its environment; ``findings`` holds them all."""

    def __init__(self, findings: Sequence[PolicyFinding]) -> None:
        refusing = [finding for finding in findings if finding.refuses]
        lines = [f"the job breaks {len(refusing)} rule{'s' * (len(refusing) != 1)} of its environment"]
        lines += [f"  {finding}\n    try: {finding.hint}" for finding in refusing]
        super().__init__("\n".join(lines), where="policy")
        self.findings = tuple(findings)


_Broken = tuple[str, str, str]


def kept(
    plan: JobPlan, environment: EnvironmentSpec, *, labels: Mapping[str, str] | None, fields: Mapping[Role, str]
) -> JobPlan:
    """Return the plan with a warning for each rule that it breaks and may break.

    Args:
        plan: the job, decided.
        environment: where it runs.
        labels: of the job file.
        fields: by role, the dotted path of the field that asks for its machine.

    Raises:
        PolicyError: it breaks others.
        PlanError: the rules were not read.
    """
    policy = environment.policy
    if policy is None:
        return plan
    if policy.file:
        raise PlanError("its rules were not read", where="encamp:environment.policy.file", hint="load the environment")
    findings = policy_findings(plan, policy.rules or (), labels=labels or {}, fields=fields)
    if any(finding.refuses for finding in findings):
        raise PolicyError(findings)
    return replace(plan, findings=findings, warnings=(*plan.warnings, *map(str, findings)))


def policy_findings(
    plan: JobPlan, rules: Sequence[PolicyRuleSpec], *, labels: Mapping[str, str], fields: Mapping[Role, str]
) -> tuple[PolicyFinding, ...]:
    """Return every rule that a plan breaks, in the order of the rules; see :func:`kept`."""
    job = _Job(plan, labels, fields)
    return tuple(
        PolicyFinding(rule.name or to_camel(limit), where, what, hint, rule.message, rule.enforce == "refuse")
        for rule in rules
        for limit in rule.limits
        for where, what, hint in _CHECKS[limit](rule, job)
    )


@dataclass(frozen=True)
class _Job:
    plan: JobPlan
    labels: Mapping[str, str]
    fields: Mapping[Role, str]


def _regions(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:
    allowed, region = rule.regions or (), job.plan.cluster_region
    if region not in allowed:
        hint = f"choose an environment in {', '.join(allowed)}"
        yield "trainingInput.region", f"machines in {region} are not allowed", hint


def _machine_families(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:
    allowed = rule.machine_families or ()
    seen: set[str] = set()
    for group in job.plan.groups:
        machine = group.machine_type
        if machine not in seen and not any(machine.startswith(f"{family}-") for family in allowed):
            seen.add(machine)
            where = job.fields.get(group.role, "trainingInput")
            yield where, f"{machine} is not allowed", f"choose a machine of {', '.join(allowed)}"


def _max_accelerators(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:
    most = rule.max_accelerators or 0
    held = [(pool.max_nodes, pool.accelerator) for pool in job.plan.node_pools if pool.accelerator is not None]
    total = sum(nodes * accelerator.count for nodes, accelerator in held)
    if total > most:
        kinds = ", ".join(sorted({accelerator.type for _, accelerator in held}))
        yield "trainingInput", f"{total} accelerators at once ({kinds}) are more than {most}", "take fewer, or replicas"


def _max_cost_usd(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:
    most, cost = rule.max_cost_usd or 0.0, job.plan.cost
    if cost is None or cost.worst_case is None:
        unknown = ", ".join(cost.unpriced) if cost is not None else "its machines"
        what = f"no price is known of {unknown}, so nobody can say that the job costs at most {most:.2f} USD"
        yield "trainingInput", what, "choose another machine, or have its price put into the environment's `prices`"
    elif cost.worst_case > most:
        what = f"the job may cost {cost.worst_case:.2f} USD at worst, more than {most:.2f} USD"
        hint = f"say `encamp: {{budget: {{usd: {most:g}}}}}`: it cuts the running time, or says which one fits"
        yield "trainingInput.scheduling.maxRunningTime", what, hint


def _spot_only(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:  # noqa: ARG001 - as all checks
    others = sorted({pool.provisioning for pool in job.plan.node_pools if not pool.spot})
    if others:
        what = f"only spot machines are allowed, not {', '.join(others)}"
        yield "encamp.provisioning", what, "write `encamp: {provisioning: SPOT}`"


def _required_labels(rule: PolicyRuleSpec, job: _Job) -> Iterator[_Broken]:
    for key in rule.required_labels or ():
        if not job.labels.get(key):
            yield f"labels.{key}", "the label is missing", f"write `labels: {{{key}: ...}}`"


_CHECKS: Mapping[str, Callable[[PolicyRuleSpec, _Job], Iterator[_Broken]]] = {
    "regions": _regions,
    "machine_families": _machine_families,
    "max_accelerators": _max_accelerators,
    "max_cost_usd": _max_cost_usd,
    "spot_only": _spot_only,
    "required_labels": _required_labels,
}
