"""The ``policy`` block of an environment: an organisation's limits for jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic.alias_generators import to_camel

from encamp.spec.environment.problems import Found, file_problem
from encamp.spec.fields import Double, Flag, Int64, Text, Written
from encamp.spec.machines_today import machine_types
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
#: The limits that a rule may set, by field.
LIMITS = ("regions", "machine_families", "max_accelerators", "max_cost_usd", "spot_only", "required_labels")


class PolicyRuleSpec(Written):
    """One rule: a limit, and the message for jobs that exceed it."""

    name: Text = ""
    """Name of the rule; that of its limit when absent."""
    message: Text = ""
    """The organisation's own message, said after the problem: why, and whom to ask."""
    enforce: Literal["refuse", "warn"] = "refuse"
    """``refuse``: the job is not planned. ``warn``: it is, with a warning."""
    regions: list[Text] | None = None
    """Regions that machines may run in."""
    machine_families: list[Text] | None = None
    """Prefixes of allowed machine types, such as ``n1``, ``g2`` or ``a3-highgpu``."""
    max_accelerators: Int64 | None = None
    """Largest number of GPUs and TPU chips of a job at a time."""
    max_cost_usd: Double | None = None
    """Largest worst-case cost of a job, in US dollars."""
    spot_only: Flag | None = None
    """True: all machines must be spot machines."""
    required_labels: list[Text] | None = None
    """Keys of labels that a job must have."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits that it sets, by field."""
        return tuple(name for name in LIMITS if getattr(self, name) is not None)


class PolicySpec(Written):
    """Rules for the jobs of an environment, and for where it is: in a file, written here, or both."""

    file: Text = ""
    """A file in YAML or JSON with ``rules``, relative to the project's folder, that several environments may share."""
    rules: list[PolicyRuleSpec] | None = None
    """The rules; all of them hold."""


def policy_problems(policy: PolicySpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    if policy.file:
        yield from file_problem(policy.file)
    if not policy.file and not policy.rules:
        yield Found((), "says nothing", "give rules, or the file that holds them")
    yield from (found._replace(path=("rules", *found.path)) for found in rule_problems(policy.rules, environment))


def rule_problems(rules: list[PolicyRuleSpec] | None, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of rules, each below its index, and with an environment that breaks one."""
    for index, rule in enumerate(rules or ()):
        for found in (*_forms(rule), *_numbers(rule), *_here(rule, environment)):
            yield found._replace(path=(index, *found.path))


def _forms(rule: PolicyRuleSpec) -> Iterator[Found]:
    if not rule.limits:
        yield Found((), "limits nothing", f"give one of {', '.join(map(to_camel, LIMITS))}")
    for name in ("regions", "machine_families", "required_labels"):
        if getattr(rule, name) == []:
            yield Found((name,), "is empty, so that no job would keep it", "leave the rule out, or name something")
    for index, region in enumerate(rule.regions or ()):
        if not _REGION.fullmatch(region):
            yield Found(("regions", index), f"{region!r} must be a region, such as us-central1")
    for index, family in enumerate(rule.machine_families or ()):
        if not any(machine.startswith(f"{family}-") for machine in machine_types()):
            close = nearest(family, {machine.partition("-")[0] for machine in machine_types()})
            message = f"no machine type begins with {family!r}"
            yield Found(("machine_families", index), message, f"write {close}" if close else "such as n1 or a3-highgpu")
    for index, key in enumerate(rule.required_labels or ()):
        if not _LABEL_KEY.fullmatch(key):
            message = f"{key!r} must be a label's key: a lowercase letter, then letters, digits, _ and -"
            yield Found(("required_labels", index), message, "at most 63 characters")


def _numbers(rule: PolicyRuleSpec) -> Iterator[Found]:
    if rule.max_accelerators is not None and rule.max_accelerators < 0:
        yield Found(("max_accelerators",), f"{rule.max_accelerators} must not be negative")
    if rule.max_cost_usd is not None and rule.max_cost_usd <= 0:
        yield Found(("max_cost_usd",), f"{rule.max_cost_usd} must be more than 0")
    if rule.spot_only is False:
        yield Found(("spot_only",), "false limits nothing", "leave it out, or write true")


def _here(rule: PolicyRuleSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    if rule.regions and environment.region not in rule.regions and rule.enforce == "refuse":
        message = f"allows {', '.join(rule.regions)}, but the environment is in {environment.region}"
        yield Found(("regions",), message, rule.message or None)
