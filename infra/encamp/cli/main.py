"""The ``encamp`` command: one file a verb, imported when it is called, so that each starts only what it needs."""

from __future__ import annotations

import importlib
import io
import sys

import click

from encamp import __version__
from encamp.cli.out import say
from encamp.errors import EncampError, ExitCode

#: Verb to what it does, in the order of the help page. The module ``encamp.cli.<verb>`` holds its ``command``.
VERBS = {
    "validate": "List every problem of a job file.",
    "explain": "Say what a field or a rule of job files means.",
    "new": "Write a commented job file.",
    "schema": "Print the JSON Schema of job files, for editors.",
    "plan": "Show what a job file becomes, without touching any cloud.",
    "prices": "Print the prices that costs are counted by.",
    "manifests": "Print the Kubernetes manifests of a job file.",
    "containerfile": "Print how to build the image of a runtime version.",
    "local": "Train on this machine, before paying for anything.",
    "run": "Run a job: bring up, train, keep the results, tear down.",
    "rerun": "Run a job again, from the record.",
    "submit": "Hand a job over to a driver of its own, and return.",
    "drive": "Drive a job in a pod of the environment's cluster.",
    "serve": "AI Platform's jobs API, for gcloud and other clients of it.",
    "attach": "Follow a job that another process drives, to its end.",
    "cancel": "End jobs before their time.",
    "list": "The jobs of an environment, newest first.",
    "describe": "A job as AI Platform showed it.",
    "trials": "The trials of a tuning job, best first.",
    "logs": "A job's logs, before and after its end.",
    "receipts": "What jobs were and cost, added up.",
    "reap": "Bring jobs without a living driver to their end.",
    "ci": "What a change does to stacks, and where the cloud drifted.",
    "doctor": "Look at what a stack needs before anything of it is made.",
    "acceptance": "Prove on a real project what encamp believes of Google Cloud.",
    "access": "Who may do what in an environment.",
    "sandbox": "A Google Cloud of this machine's own.",
    "environment": "Bring up or take down what lives long around jobs.",
    "demo": "The first five minutes: an example job through the sandbox.",
}


class _Verbs(click.Group):
    """Loads a verb's module at its first use; the help page needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"encamp.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="encamp")
def cli() -> None:
    """Training jobs as code: one job file in, trained model and empty bill out."""


def main() -> None:
    """Run the command line; an EncampError becomes its message on stderr and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except EncampError as error:
        say(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _show(error)
        sys.exit(ExitCode.BAD_INPUT if isinstance(error, click.UsageError) else error.exit_code)
    except click.Abort:
        say("aborted", err=True)
        sys.exit(ExitCode.CANCELLED)


def _show(error: click.ClickException) -> None:
    """Say what click says of an error; it quotes what was typed."""
    text = io.StringIO()
    error.show(text)
    say(text.getvalue(), err=True, nl=False)
