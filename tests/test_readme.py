"""What README tells to type exists: verbs, their options, and the stack config of a project of one's own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from encamp.cli.main import cli
from encamp.spec.environment import parse_environment

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text()
#: In a block of commands, or in the running text; what follows ``--`` is the trainer's.
COMMANDS = sorted(
    {
        found.partition(" -- ")[0].partition("  #")[0].partition(" | ")[0].strip()
        for found in re.findall(r"^\$ (encamp .+?)\\?$|`(encamp [^`]+)`", README, re.MULTILINE)
        for found in found
        if found
    }
)


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words begin with, and the rest of them."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_of_readme_exists_with_its_options(text: str) -> None:
    command, rest = command_of(shlex.split(text.replace("'...'", "x"))[1:])
    assert command is not cli or rest == [], text
    known = {
        option for one in command.get_params(click.Context(command)) for option in (*one.opts, *one.secondary_opts)
    } | {"--help", "-h"}
    assert [word for word in rest if word.startswith("-") and word.partition("=")[0] not in known] == []


def test_the_stack_of_ones_own_project_is_an_environment() -> None:
    (text,) = re.findall(r"^```yaml\n(config:\n.*?)^```", README, re.MULTILINE | re.DOTALL)
    config = yaml.safe_load(text)["config"]
    spec = parse_environment(config["encamp:environment"], project=config["gcp:project"], source="README.md")
    assert (spec.name, spec.region) == ("mine", config["gcp:region"])
