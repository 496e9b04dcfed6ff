"""``encamp schema``: the JSON Schema of job files."""

from __future__ import annotations

import click

from encamp.cli.out import say_json


@click.command(name="schema")
def command() -> None:
    """Print the JSON Schema of job files, which gives editors completion and documentation.

    Save it, and begin a job file with `# yaml-language-server: $schema=PATH`.
    """
    from encamp.spec.json_schema import job_schema  # noqa: PLC0415 - help pages need no models

    say_json(job_schema())
