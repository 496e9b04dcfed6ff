"""A summary of an environment's jobs in a time span: their receipts, added up.

What is not in the sum is named beside it: machines without a price, and jobs whose receipts say nothing of machines.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from encamp.run.results.receipt import PRICES_OF, exact_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from encamp.run.history.catalogue import KnownJob


def ended_since(jobs: Iterable[KnownJob], since: datetime | None, until: datetime | None = None) -> list[KnownJob]:
    """Return jobs with a receipt that ended from ``since`` to before ``until``, oldest first; None is no limit.

    A job whose end is in no receipt counts by its latest time that is.
    """
    dated = [(job.ended or max(job.times.values(), default=None), job) for job in jobs if job.receipt is not None]
    kept = [
        (at.timestamp() if at else 0.0, job)
        for at, job in dated
        if (since is None or (at is not None and at >= since)) and (until is None or (at is not None and at < until))
    ]
    return [job for _, job in sorted(kept, key=lambda one: (one[0], one[1].job_id))]


def add_up(jobs: Sequence[KnownJob]) -> dict[str, Any]:
    """Return the sum of receipts: jobs by outcome, node-seconds by machine, USD, and what none of these counts."""
    seconds: dict[str, list[float]] = {}
    unpriced: dict[str, list[float]] = {}
    for job in jobs:
        receipt = job.receipt or {}
        without = set(_cost(receipt).get("unpriced") or ())
        for machine, spent in (receipt.get("nodeSeconds") or {}).items():
            seconds.setdefault(machine, []).append(spent)
            if machine in without:
                unpriced.setdefault(machine, []).append(spent)
    amounts = [job.cost for job in jobs if job.cost is not None]
    return {
        "jobs": dict(sorted(Counter(job.state for job in jobs).items())),
        "nodeSeconds": _summed(seconds),
        "cost": {
            "currency": "USD",
            "amount": exact_sum(amounts),
            "prices": sorted(
                {_cost(job.receipt or {}).get("prices") or PRICES_OF for job in jobs if job.cost is not None}
            ),
            "unpriced": _summed(unpriced),
            "forgotten": [job.job_id for job in jobs if "nodeSeconds" not in (job.receipt or {})],
        },
    }


def _cost(receipt: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = receipt.get("cost") or {}
    return found


def _summed(parts: Mapping[str, Iterable[float]]) -> dict[str, float]:
    return {machine: exact_sum(spent, 3) for machine, spent in sorted(parts.items())}
