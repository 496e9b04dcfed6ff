"""No block of README and the guides is forgotten: each is run, or its fence says why it is only shown.

A fence has a language and may have a note. A ``console`` block without a note is run by test_guides.py in the sandbox.
Notes: ``shown: REASON``, ``tested: FILE`` (the test that runs the block), ``file=NAME`` (later commands read it under
that name) and ``exit=N`` (the exit code of the block's last command).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from encamp.cli.main import cli
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import read_job
from encamp.spec.loading import parse_document

if TYPE_CHECKING:
    from tests.docs.conftest import Block

REPOSITORY = Path(__file__).resolve().parents[2]
SHOWN = Path(__file__).with_name("shown.txt")
NOTE = re.compile(r"|shown: \S.*|tested: tests/\S+|file=\S+|exit=\d")
#: An environment that has what any block of a page may leave out.
LEAST = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
IMAGE = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/my-project/trainer"}}
JOB: dict[str, Any] = {"trainingInput": IMAGE}


def test_every_fence_says_what_becomes_of_its_block(blocks: list[Block]) -> None:
    assert [str(block) for block in blocks if not NOTE.fullmatch(block.note)] == []
    known = {"console", "diff", "json", "markdown", "python", "sh", "text", "yaml"}
    assert [str(block) for block in blocks if block.language not in known] == []
    # What no test can read is shown, and says so.
    loose = {"diff", "markdown", "sh", "text"}
    assert [str(block) for block in blocks if block.language in loose and not block.shown] == []


def test_the_list_names_every_block_that_is_only_shown(blocks: list[Block], *, rewrite_goldens: bool) -> None:
    """So that a block which stops being run shows in a review."""
    first = [(block, block.text.partition("\n")[0]) for block in blocks if block.shown]
    listed = "".join(f"{block.page}: {line}\n    {block.shown}\n" for block, line in first)
    if rewrite_goldens:
        SHOWN.write_text(listed, encoding="utf-8")
    assert SHOWN.read_text(encoding="utf-8") == listed


def test_most_blocks_are_run_or_checked(blocks: list[Block]) -> None:
    assert len([block for block in blocks if block.shown]) < len(blocks) / 2


def test_tests_that_fences_name_know_the_page(blocks: list[Block]) -> None:
    for block in blocks:
        for name in re.findall(r"tests/[\w./]+", block.note):
            path = REPOSITORY / name.rstrip("./")
            assert path.exists(), f"{block}: {name}"
            if block.tested:
                assert Path(block.page).name in path.read_text(encoding="utf-8"), f"{name} does not read {block.page}"


def test_code_in_python_and_json_can_be_read(blocks: list[Block]) -> None:
    for block in blocks:
        if block.language == "python":
            compile(block.text, str(block), "exec")
            assert block.tested or block.shown, block
        elif block.language == "json":
            assert json.loads(block.text), block


def test_yaml_is_a_job_or_an_environment_that_can_be_read(blocks: list[Block]) -> None:
    for block in blocks:
        if block.language == "yaml" and not (block.shown or block.tested or block.file):
            read_yaml(block)


def read_yaml(block: Block) -> None:
    """Read a block by the reader of what it is."""
    source = str(block)
    project = "acme-ml" if "projects/acme-ml/" in block.text else "my-project"
    for written in yaml.safe_load_all(block.text):
        if written is None or "apiVersion" in written:
            # A comment for editors, or an object that the page gives to kubectl.
            assert written is None or {"kind", "metadata"} <= written.keys(), source
        elif written.keys() & {"trainingInput", "scale_tier", "encamp"}:
            job = JOB | written if written.keys() == {"encamp"} else written
            assert read_job(parse_document(yaml.safe_dump(job).encode(), source=source)).named("job").job
        else:
            environment = written.get("config", written).get("encamp:environment", written)
            assert plan_environment(parse_environment(LEAST | environment, project=project, source=source))


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


def spoken_of(blocks: list[Block]) -> set[str]:
    """Every command of encamp in a block or in running text; what follows ``--`` is the trainer's."""
    typed = [command for block in blocks if block.language == "console" for command, _ in block.commands()]
    pages = {block.page for block in blocks}
    inline = [code for page in pages for code in re.findall(r"`(encamp [^`\n]+)`", (REPOSITORY / page).read_text())]
    parts = [part for text in (*typed, *inline) for part in re.split(r" && | \| | > |\n(?! )", text)]
    clean = (part.replace("\\\n", " ").partition(" -- ")[0].partition("  #")[0].strip() for part in parts)
    return {part for part in clean if part.startswith("encamp ")}


def test_every_command_that_a_page_names_exists_with_its_options(blocks: list[Block]) -> None:
    found = spoken_of(blocks)
    assert len(found) > 100
    for text in found:
        command, rest = command_of(shlex.split(text.replace("'...'", "x"))[1:])
        assert command is not cli or rest in ([], ["--help"]) or rest[0] in ("COMMAND", "--version"), text
        known = {
            option for one in command.get_params(click.Context(command)) for option in (*one.opts, *one.secondary_opts)
        } | {"--help", "-h"}
        assert [word for word in rest if word.startswith("-") and word.partition("=")[0] not in known] == [], text


def test_commands_are_words_of_a_shell(blocks: list[Block]) -> None:
    for block in blocks:
        if block.language == "console":
            text = "\n".join(command for command, _ in block.commands())
            read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
            assert read.returncode == 0, f"{block}: {read.stderr}"


def test_the_two_commands_of_readme_are_targets_of_make(blocks: list[Block]) -> None:
    (block,) = [block for block in blocks if block.page == "README.md" and block.language == "console"]
    makefile = (REPOSITORY / "Makefile").read_text()
    said = [command.partition("#") for command, _ in block.commands()]
    assert [command.strip() for command, _, _ in said] == ["make demo", "make test"]
    for command, _, _ in said:
        assert re.search(rf"^{command.split()[1]}:.*## ", makefile, re.MULTILINE), command


def test_links_between_pages_lead_somewhere(blocks: list[Block]) -> None:
    for page in {block.page for block in blocks} | {"docs/README.md", "docs/comparison.md", "docs/glossary.md"}:
        for link in re.findall(r"\]\(([^)\s]+)\)", (REPOSITORY / page).read_text(encoding="utf-8")):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = (REPOSITORY / page).parent / path if path else REPOSITORY / page
            assert target.exists(), f"{page}: {link}"
            if anchor and target.suffix == ".md":
                assert anchor in anchors(target), f"{page}: {link}"


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page, and those written by hand."""
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "") for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain} | set(
        re.findall(r'<a (?:id|name)="([^"]+)"', text)
    )


@pytest.mark.parametrize("page", ["docs/getting-started.md"])
def test_the_stack_of_ones_own_project_is_an_environment(page: str, blocks: list[Block]) -> None:
    (block,) = [block for block in blocks if block.page == page and block.language == "yaml"]
    config = yaml.safe_load(block.text)["config"]
    spec = parse_environment(config["encamp:environment"], project=config["gcp:project"], source=page)
    assert (spec.name, spec.region) == ("mine", config["gcp:region"])
