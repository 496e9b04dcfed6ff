"""The ``encamp`` command: one file a verb, imported when it is called, so that each starts only what it needs."""

from __future__ import annotations

import importlib
import io
import sys
from difflib import get_close_matches
from typing import NoReturn

import click

from encamp.cli.out import say
from encamp.errors import EncampError, ExitCode
from encamp.version import __version__

#: Heading to verb to what it does, in the order of the help page: verbs stand together by who needs them. The module
#: ``encamp.cli.<verb>`` holds its ``command``.
SECTIONS = {
    "Write and check a job": {
        "new": "Write a commented job file.",
        "validate": "List every problem of a job file.",
        "explain": "Say what a field or a rule of job files means.",
        "plan": "Show what a job file becomes, without touching any cloud.",
        "manifests": "Print the Kubernetes manifests of a job file.",
        "local": "Train on this machine, before paying for anything.",
        "prices": "Print the prices that costs are counted by.",
        "schema": "Print the JSON Schema of job files, for editors.",
    },
    "Run a job": {
        "run": "Run a job, keep its results and delete its resources.",
        "rerun": "Run a recorded job again under a new id.",
        "submit": "Start a job and return; a driver continues without the terminal.",
        "attach": "Show the logs of a job until it has ended.",
        "cancel": "Cancel jobs and delete their resources.",
    },
    "Look at jobs": {
        "list": "List the jobs of an environment, newest first.",
        "describe": "Show a job as AI Platform did.",
        "logs": "Show the logs of a running or ended job.",
        "results": "Copy the results of a job to this machine.",
        "trials": "Show the trials of a tuning job, best first.",
        "receipts": "Add up outcomes, machine time and cost of ended jobs.",
    },
    "Look after an environment": {
        "init": "Write a project for a repository: stacks, a job, workflows.",
        "environment": "Create or delete network, cluster and other shared resources.",
        "doctor": "Check what a stack needs before it is created.",
        "access": "Show who may do what in an environment.",
        "notices": "Try the messages that people get when jobs end.",
        "serve": "Serve AI Platform's jobs API, for gcloud and other clients.",
        "containerfile": "Print how to build the image of a runtime version.",
        "acceptance": "Check on a real project what encamp believes of Google Cloud.",
    },
    "For cron, CI and pods": {
        "reap": "Finish jobs that have no driver and delete what they left.",
        "ci": "Preview changes of stacks, and report drift.",
        "drive": "Drive a job in a pod of the environment's cluster.",
    },
    "Without a cloud account": {
        "demo": "Run an example job in the sandbox.",
        "sandbox": "Start, check and stop the Google Cloud of this machine.",
    },
}
VERBS = {verb: text for verbs in SECTIONS.values() for verb, text in verbs.items()}


class _Verbs(click.Group):
    """Loads a verb's module at its first use; the help page needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"encamp.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; the error for an unknown one names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            nearest = get_close_matches(error.command_name, VERBS, n=1)
            raise click.NoSuchCommand(error.command_name, possibilities=nearest, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, VERBS))
        for heading, verbs in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(verb.ljust(width), text) for verb, text in verbs.items()])


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="encamp")
def cli() -> None:
    """Training jobs as code: one job file in, trained model and empty bill out."""


def main() -> None:
    """Run the command line; an EncampError becomes its message on stderr and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except EncampError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        from encamp.extras import missing_extra  # noqa: PLC0415 - help pages need none

        missing = missing_extra(error)
        if missing is None:
            raise
        _fail(missing)
    except click.ClickException as error:
        _show(error)
        sys.exit(ExitCode.BAD_INPUT if isinstance(error, click.UsageError) else error.exit_code)
    except click.Abort:
        say("aborted", err=True)
        sys.exit(ExitCode.CANCELLED)


def _fail(error: EncampError) -> NoReturn:
    say(f"error: {error}", err=True)
    sys.exit(error.exit_code)


def _show(error: click.ClickException) -> None:
    """Say what click says of an error; it quotes what was typed."""
    text = io.StringIO()
    error.show(text)
    say(text.getvalue(), err=True, nl=False)
