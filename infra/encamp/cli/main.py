"""The ``encamp`` command: one file a verb, imported when it is called, so that each starts only what it needs."""

from __future__ import annotations

import importlib
import io
import sys
from difflib import get_close_matches
from typing import NoReturn

import click

from encamp import __version__
from encamp.cli.out import say
from encamp.errors import EncampError, ExitCode

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
        "run": "Run a job: bring up, train, keep the results, tear down.",
        "rerun": "Run a job again, from the record.",
        "submit": "Hand a job over to a driver of its own, and return.",
        "attach": "Follow a job that another process drives, to its end.",
        "cancel": "End jobs before their time.",
    },
    "Look at jobs": {
        "list": "The jobs of an environment, newest first.",
        "describe": "A job as AI Platform showed it.",
        "logs": "A job's logs, before and after its end.",
        "results": "Copy what a job left to this machine.",
        "trials": "The trials of a tuning job, best first.",
        "receipts": "What jobs were and cost, added up.",
    },
    "Look after an environment": {
        "init": "Write a project of one's own: stacks, a job, workflows.",
        "environment": "Bring up or take down what lives long around jobs.",
        "doctor": "Look at what a stack needs before anything of it is made.",
        "access": "Who may do what in an environment.",
        "serve": "AI Platform's jobs API, for gcloud and other clients of it.",
        "containerfile": "Print how to build the image of a runtime version.",
        "acceptance": "Prove on a real project what encamp believes of Google Cloud.",
    },
    "For cron, CI and pods": {
        "reap": "Bring jobs without a living driver to their end.",
        "ci": "What a change does to stacks, and where the cloud drifted.",
        "drive": "Drive a job in a pod of the environment's cluster.",
    },
    "Without a cloud account": {
        "demo": "The first five minutes: an example job through the sandbox.",
        "sandbox": "A Google Cloud of this machine's own.",
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
