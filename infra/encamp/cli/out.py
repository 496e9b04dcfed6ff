"""The one way from a command to a terminal: nothing in a text steers it, whoever wrote the text.

Job files, names, messages of clouds and logs are other people's. Escape sequences, titles of windows, overrides of the
direction of writing and the like are shown as escapes. Documents for programs stay what they mean: in JSON and YAML the
same characters are written by the escapes of these formats.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from encamp.errors import UsageError
from encamp.text import is_plain, visible

_LAYOUT = "\n\t"


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Write a text to stdout, or to stderr.

    Args:
        text: what to say; a line break and a tab in it are kept.
        err: whether it goes to stderr.
        nl: whether a line break follows.
    """
    click.echo(visible(str(text), kept=_LAYOUT), err=err, nl=nl)


def say_title(text: str, *, nl: bool = True) -> None:
    """Write a bold heading to stdout."""
    click.secho(visible(text, kept=_LAYOUT), bold=True, nl=nl)


def confirm(question: str) -> None:
    """Ask whether to go on; an answer of no ends the command as cancelled.

    Raises:
        UsageError: cannot ask without a terminal: stdin is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"cannot ask without a terminal: {question}", where="stdin", hint="use --yes where there is no terminal"
        )
    click.confirm(visible(question), abort=True)


def say_json(data: Any, *, indent: int | None = 2) -> None:
    """Write data as JSON to stdout; readable letters of any language stay as they are."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    click.echo(text if is_plain(text) else json.dumps(data, indent=indent))


def say_yaml(data: Any) -> None:
    """Write data as YAML to stdout; readable letters of any language stay as they are."""
    import yaml  # noqa: PLC0415 - few commands speak YAML

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    click.echo(text if is_plain(text) else yaml.safe_dump(data, sort_keys=False), nl=False)


def say_bytes(data: bytes) -> None:
    """Write bytes as they are, for a program that reads them: never where stdout is a terminal."""
    sys.stdout.buffer.write(data)
