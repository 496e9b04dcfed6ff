"""``encamp receipts``: what the jobs of a span were and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from encamp.cli.job_input import FORMAT
from encamp.cli.known import looking
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@click.command()
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]),
    help="Only jobs that ended at this date or time (UTC) or later.",
)
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]),
    help="Only jobs that ended before this date or time (UTC).",
)
@ENVIRONMENT
@FORMAT
def command(since: datetime | None, until: datetime | None, environment: str, output: str) -> None:
    """Add up the receipts of ended jobs: jobs by outcome, node-seconds by machine, cost by the prices of each.

    Machines without a price are named beside the sum, and so are jobs whose receipts were reduced when their results
    were deleted at the end of their term.
    """
    from datetime import UTC  # noqa: PLC0415 - `encamp receipts --help` needs none of it

    from encamp.run.history.accounts import add_up, ended_since  # noqa: PLC0415

    begin, end = (at.replace(tzinfo=UTC) if at is not None else None for at in (since, until))
    with looking(environment) as jobs:
        found = ended_since(jobs.catalogue.jobs(), begin, end)
    total = add_up(found)
    if output == "json":
        receipts = [dict(job.receipt or {}) for job in found]
        span = {"since": begin.isoformat() if begin else None, "until": end.isoformat() if end else None}
        say_json({**span, "receipts": receipts, "sum": total})
        return
    for job in found:
        at = f"{job.ended:%Y-%m-%d %H:%M:%S}" if job.ended else "-" * 19
        cost = "-" if job.cost is None else f"{job.cost:.4f} USD"
        say(f"{at}  {job.state:<10}  {cost:>14}  {job.job_id}")
    for line in _sum_text(total):
        say(line)


def _sum_text(total: Mapping[str, Any]) -> list[str]:
    jobs, cost = total["jobs"], total["cost"]
    lines = [f"jobs         {', '.join(f'{count} {state}' for state, count in jobs.items()) or 'none'}"]
    lines += [f"machine time {spent:.3f} s of {machine}" for machine, spent in total["nodeSeconds"].items()]
    lines.append(
        f"cost         about {cost['amount']:.4f} {cost['currency']} ({'; '.join(cost['prices']) or 'no job'})"
    )
    for machine, spent in cost["unpriced"].items():
        lines.append(f"no price of  {machine}: its {spent:.3f} s are not in the cost")
    if cost["forgotten"]:
        lines.append(f"not in it    {', '.join(cost['forgotten'])}: deleted with their results")
    return lines
