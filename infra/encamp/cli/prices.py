"""``encamp prices``: the table that costs are counted by."""

from __future__ import annotations

import click

from encamp.cli.out import say_json
from encamp.cli.stack import ENVIRONMENT
from encamp.jobs.target import environment_named


@click.command(name="prices")
@ENVIRONMENT
def command(environment: str) -> None:
    """Print the prices that costs and budgets of an environment are counted by.

    What is printed is a file in the form that the environment's `prices: {file: ...}` takes: correct it, and name it
    there.
    """
    from encamp.plan.cost.prices import price_table  # noqa: PLC0415 - help pages need no models

    table = price_table(environment_named(environment))
    data = table.model_dump(by_alias=True, exclude_none=True, exclude={"file"})
    say_json(data)
