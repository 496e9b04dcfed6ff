"""The house itself: nothing lies in it that no runner collects and no reader finds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from encamp.cli.main import VERBS, cli
from encamp.errors import ExitCode

REPOSITORY = Path(__file__).resolve().parents[1]
LONGEST_MODULE = 400


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def collected_files() -> set[str]:
    """The files that plain ``pytest`` collects tests from."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.partition("::")[0] for line in collected.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_every_test_file_is_collected(collected: frozenset[str] | None) -> None:
    assert (collected or collected_files()) == {
        str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "tests").rglob("test_*.py")
    }


def test_every_verb_has_help_and_stands_in_the_page_of_commands() -> None:
    page = (REPOSITORY / "docs" / "commands.md").read_text()
    for verb in VERBS:
        command = cli.get_command(cli.make_context("encamp", ["--help"], resilient_parsing=True), verb)
        assert command is not None
        assert command.help
        assert re.search(rf"encamp {verb}\b", page), verb


def test_nothing_promises_commands_in_containers() -> None:
    """The sandbox's kubelet refuses them, and it has no metrics API: no text may lead a user there."""
    promise = re.compile(r"kubectl\s+(?:-\S+\s+\S+\s+)*(?:exec|attach|top|cp)\b|[Ii]nteractive shells?")
    kept = tracked("README.md", "docs/*", "examples/*", "infra/*.py", "infra/*.md", "infra/*.json", "templates/*")
    # Decisions say what was thought; schemas of Google's own resources are Google's words.
    read = [name for name in kept if "/decisions/" not in name and "/gcp_provider/schema/" not in name]
    assert [name for name in read if promise.search((REPOSITORY / name).read_text(errors="replace"))] == []


def test_every_exit_code_stands_in_the_page_of_commands() -> None:
    page = (REPOSITORY / "docs" / "commands.md").read_text()
    assert re.findall(r"^\| (\d) \|", page, re.MULTILINE) == [str(int(code)) for code in ExitCode]


def test_every_room_stands_on_the_map() -> None:
    rooms = {path.parts[2] for name in tracked("infra/encamp/*/*.py") if len((path := Path(name)).parts) > 3}
    assert all(f"`{room}/`" in (REPOSITORY / "infra" / "README.md").read_text() for room in rooms)


def spelled_out(path: str) -> list[str]:
    """``a/{b,c}.py`` as ``a/b.py`` and ``a/c.py``."""
    before, brace, rest = path.partition("{")
    if not brace:
        return [path]
    inside, _, after = rest.partition("}")
    return [each for one in inside.split(",") for each in spelled_out(f"{before}{one}{after}")]


def test_the_map_names_only_what_is_there() -> None:
    pages = (REPOSITORY / "infra" / "README.md", REPOSITORY / "docs" / "where-to-change.md")
    rows = re.findall(r"^(?:\||\d\. ).*$", "\n".join(page.read_text() for page in pages), re.MULTILINE)
    named = [code for row in rows for code in re.findall(r"`([^`<> =]*(?:/|\.py)[^`<> =]*)`", row)]
    assert len(named) > 100
    places = (REPOSITORY, REPOSITORY / "infra", REPOSITORY / "infra" / "encamp")
    missing = [path for code in named for path in spelled_out(code) if not any(list(at.glob(path)) for at in places)]
    assert missing == []


def test_no_module_has_grown_past_its_room() -> None:
    lengths = {name: len((REPOSITORY / name).read_text().splitlines()) for name in tracked("infra/**/*.py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_the_lock_names_no_registry() -> None:
    text = (REPOSITORY / "requirements.lock").read_text()
    assert "://" not in text
    assert "--index-url" not in text
