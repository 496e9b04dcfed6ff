"""Files that an environment names: its prices and its organisation's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.errors import SpecError
from encamp.spec.environment.policy import PolicyRuleSpec, PolicySpec, rule_problems
from encamp.spec.environment.prices import PricesSpec
from encamp.spec.fields import Written
from encamp.spec.loading import load_document
from encamp.spec.prices import load_prices
from encamp.spec.reading import Reading, read_model

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.spec.environment.model import EnvironmentSpec


class PolicyFile(Written):
    """A file of rules that several environments share."""

    rules: list[PolicyRuleSpec] | None = None
    """The rules; all of them hold."""


def with_files(spec: EnvironmentSpec, repository: Path) -> EnvironmentSpec:
    """Return the environment with what its files hold in their place; none is named any more then.

    Raises:
        UsageError: there is no such file.
        SpecError: everything that is wrong with one of them.
    """
    if spec.prices is not None and spec.prices.file:
        table = load_prices(repository / spec.prices.file, source=spec.prices.file)
        spec = spec.model_copy(update={"prices": PricesSpec(**dict(table))})
    if spec.policy is not None and spec.policy.file:
        shared = _rules(spec, spec.policy.file, repository)
        spec = spec.model_copy(update={"policy": PolicySpec(rules=[*shared, *(spec.policy.rules or ())])})
    return spec


def _rules(spec: EnvironmentSpec, file: str, repository: Path) -> list[PolicyRuleSpec]:
    document = load_document(repository / file, source=file)
    reading = Reading(document)
    found = read_model(PolicyFile, document.data, reading)
    for path, message, hint in rule_problems(found.rules, spec):
        at = ("rules", *path)
        if not reading.is_broken(at):
            reading.report(reading.spelled(at, PolicyFile), message, hint=hint)
    if not found.rules and not reading.problems:
        reading.report((), "holds no rules", hint="write `rules:`, a list")
    if reading.problems:
        raise SpecError(file, reading.problems)
    return found.rules or []
