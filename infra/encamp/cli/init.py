"""``encamp init``: a project of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from encamp.cli.out import say


@click.command(name="init")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the Pulumi project; made of DIR's where absent.")
@click.option("--google-project", metavar="ID", help="Google Cloud project of the stacks `production*`.")
def command(folder: Path, name: str | None, google_project: str | None) -> None:
    """Write a Pulumi project into DIR: program, stacks, a job with its trainer, workflows, and encamp's versions.

    DIR may exist. A file that exists is never overwritten: then nothing is written. Commands that are called in DIR or
    below it work in that project.
    """
    from encamp.new_project import (  # noqa: PLC0415 - help pages need no templates
        PLACEHOLDER,
        project_files,
        project_name_from,
        write_project,
    )

    name = name if name is not None else project_name_from(folder)
    files = project_files(name, google_project or PLACEHOLDER)
    write_project(folder, files)
    say(f"{folder}: the project {name} is written, {len(files)} files")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    say(f'next:  {enter}make setup && export PATH="$PWD/.venv/bin:$PATH"')
    say("       encamp sandbox up && encamp environment up && encamp run jobs/example/job.yaml")
    say("a stack of your own: write stacks/Pulumi.NAME.yaml, then `pulumi stack init NAME`;")
    say("       `encamp sandbox up` does so for the stacks of the sandbox's project")
