"""``encamp schema``: the JSON Schema of job files."""

from __future__ import annotations

import json

import click


@click.command(name="schema")
def command() -> None:
    """Print the JSON Schema of job files, which gives editors completion and documentation.

    Save it, and begin a job file with `# yaml-language-server: $schema=PATH`.
    """
    from encamp.spec.json_schema import job_schema  # noqa: PLC0415 - help pages need no models

    click.echo(json.dumps(job_schema(), indent=2, ensure_ascii=False))
