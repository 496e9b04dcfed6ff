"""A job's cost for people, and as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.duration import Duration
from encamp.plan.cost.job import amount

if TYPE_CHECKING:
    from encamp.plan.cost.model import CostPart, CostPlan

_HOUR = 3600


def cost_text(planned: CostPlan) -> list[str]:
    """Return the cost, a line a fact, without its parts."""
    whose = f"prices    of {planned.basis.region}, {planned.basis.date} ({planned.basis.source})"
    if planned.hourly is None or planned.worst_case is None:
        return [f"unknown   no price of {', '.join(planned.unpriced)}", whose]
    lines = [
        f"hourly    {planned.hourly:.2f} USD with every replica on its machine",
        f"one run   {_one_run(planned)}",
        f"at worst  {planned.worst_case:.2f} USD {_worst(planned)}",
    ]
    if planned.budget is not None:
        lines.append(f"budget    {planned.budget:.2f} USD")
    return [*lines, whose]


def cost_line(planned: CostPlan) -> str:
    """Return the cost in one line."""
    if planned.hourly is None:
        return f"what the job costs is not known: no price of {', '.join(planned.unpriced)}"
    run = f", one run {_one_run(planned)}" if planned.expected is not None else ""
    return (
        f"the job costs {planned.hourly:.2f} USD an hour{run}, at worst {planned.worst_case:.2f} USD ({planned.basis})"
    )


def cost_lines(planned: CostPlan) -> list[str]:
    """Return the cost by resource and in all, in lines that stand by themselves."""
    parts = [
        f"{resource}: {count} x {what}: {hourly} USD an hour, one run {one_run}, at worst {worst}"
        for resource, count, what, hourly, one_run, worst in cost_rows(planned)
    ]
    used = [f"by use: {one.what}" for one in planned.by_use]
    return ["what the job costs:", *parts, *(" ".join(line.split()) for line in cost_text(planned)), *used]


def cost_rows(planned: CostPlan) -> list[tuple[str, str, str, str, str, str]]:
    """Return a row for each resource: its name, count, machine, and USD an hour, in one run and at worst."""
    return [
        (
            part.resource,
            str(part.count),
            part.what,
            _money(part, _HOUR),
            _money(part, planned.expected_seconds),
            _money(part, planned.worst_seconds),
        )
        for part in planned.parts
    ]


def cost_document(planned: CostPlan) -> dict[str, Any]:
    """Return the cost as JSON data."""
    return {
        "currency": "USD",
        "basis": str(planned.basis),
        "prices": {
            "date": planned.basis.date,
            "region": planned.basis.region,
            "source": planned.basis.source,
        },
        "hourly": planned.hourly,
        "expected": planned.expected,
        "expectedSeconds": planned.expected_seconds,
        "worstCase": planned.worst_case,
        "worstCaseSeconds": planned.worst_seconds,
        "restarts": planned.restarts,
        "unpriced": list(planned.unpriced),
        "budget": planned.budget,
        "byUse": [{"what": one.what, "usdPerGb": one.usd} for one in planned.by_use],
        "resources": [
            {
                "resource": part.resource,
                "kind": part.kind,
                "what": part.what,
                "count": part.count,
                "hourly": None if part.hourly is None else round(part.hourly, 6),
            }
            for part in planned.parts
        ],
    }


def _one_run(planned: CostPlan) -> str:
    """Return the cost of one run in words, if its length is known."""
    if planned.expected is None or planned.expected_seconds is None:
        return "not known: no encamp.expectedTime or scheduling.maxRunningTime says how long it is"
    length = Duration.of(planned.expected_seconds).words
    if planned.is_longest:
        return f"at most {planned.expected:.2f} USD, for {length}"
    return f"about {planned.expected:.2f} USD, for the expected {length}"


def _worst(planned: CostPlan) -> str:
    again = {None: "", 0: ""}.get(planned.restarts, f", started again {planned.restarts} times")
    return f"were every machine there for {Duration.of(planned.worst_seconds).words}{again}, and nobody looked after it"


def _money(part: CostPart, seconds: int | None) -> str:
    if seconds is None:
        return "not known"
    return "unknown" if part.hourly is None else f"{amount(part.hourly, seconds):.2f}"
