"""The option that names a committed stack, the same for every command: ``-s STACK``, as the engine's own.

Former spellings still work and are shown nowhere: ``--environment``, and a stack without an option before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from encamp.default_stack import DEFAULT_ENVIRONMENT, VARIABLE
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = TypeVar("Command", bound=Callable[..., Any])

_SHOWN = ("-s", "--stack")


def stack_words(environment: str) -> str:
    """The option that names an environment, after a blank; empty for the one that commands take by default."""
    return "" if environment == DEFAULT_ENVIRONMENT else f" -s {environment}"


class _StackOption(click.Option):
    """An option whose help shows the one spelling."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line in the command's help."""
        every, self.opts = self.opts, [name for name in self.opts if name in _SHOWN]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


class FormerArgument(click.Argument):
    """A stack without an option before it; the usage line does not show it."""

    def make_metavar(self, ctx: click.Context) -> str:
        """Return no name for the usage line."""
        del ctx
        return ""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return no part of the usage line."""
        del ctx
        return []


def stack_option(help: str, *, name: str = "environment", **settings: Any) -> Callable[[Command], Command]:  # noqa: A002 - click's own word
    """``-s STACK``, passed to the command as ``name``."""
    return click.option(*_SHOWN, "--environment", name, cls=_StackOption, metavar="STACK", help=help, **settings)


#: The stack of an environment, the sandbox's when nothing else is said.
ENVIRONMENT = stack_option(
    "The environment: its committed stack, stacks/Pulumi.STACK.yaml.",
    default=DEFAULT_ENVIRONMENT,
    envvar=VARIABLE,
    show_default=True,
    show_envvar=True,
)
FORMER = click.argument("former", required=False, cls=FormerArgument)


def chosen(ctx: click.Context, environment: str, former: str | None) -> str:
    """The stack that was named, by the option or by the former spelling.

    Raises:
        UsageError: both were given.
    """
    if former is None:
        return environment
    if ctx.get_parameter_source("environment") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError(f"two stacks are named: {environment} and {former}", hint=f"encamp … -s {environment}")
    return former
