"""Parts that are installed when asked for: who needs one says the line that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from encamp import extras
from encamp.cli.main import main
from encamp.errors import ExitCode, UsageError
from encamp.extras import EXTRAS, missing_extra, need

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKED = """
import sys
blocked = set(sys.argv.pop(1).split(","))
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in blocked else found(name, package)
from encamp.cli.main import main
main()
"""


def names(requirements: list[str]) -> set[str]:
    return {Requirement(text).name for text in requirements}


def nowhere(name: str) -> None:
    assert name


def without(modules: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``encamp`` where modules are not installed."""
    command = [sys.executable, "-c", BLOCKED, modules, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_modules_are_those_of_the_extras() -> None:
    brought = packages_distributions()
    declared = PROJECT["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        assert {one for module in modules for one in brought[module]} == names(declared[extra]), extra
    assert EXTRAS.keys() == declared.keys() - {"dev", "trainer"}


def test_nothing_of_an_extra_is_in_the_base() -> None:
    for extra in EXTRAS:
        assert names(PROJECT["optional-dependencies"][extra]) & names(PROJECT["dependencies"]) == set(), extra


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_lacks_an_extra_says_the_line_that_installs_it(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need(extra, "it")
    monkeypatch.setattr(extras, "find_spec", nowhere)
    with pytest.raises(UsageError) as refused:
        need(extra, "it")
    assert refused.value.hint == f"pip install 'encamp[{extra}]'"
    assert all(module in refused.value.what for module in EXTRAS[extra])


def test_what_was_not_looked_for_says_it_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'sklearn.base'", name="sklearn.base")

    monkeypatch.setattr("encamp.cli.main.cli.main", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "pip install 'encamp[tuning]'" in capsys.readouterr().err


def test_any_other_module_that_is_missing_is_a_bug() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'encamp.nothing'", name="encamp.nothing")) is None
    assert missing_extra(ModuleNotFoundError("no name")) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("sandbox", "up"), "sandbox"),
        (("serve",), "serve"),
        (("local", "train", "examples/tuning/job.yaml", "--python", sys.executable), "tuning"),
    ],
)
def test_a_command_refuses_before_it_begins(words: tuple[str, ...], extra: str) -> None:
    ended = without(",".join(EXTRAS[extra]), *words)
    assert ended.returncode == ExitCode.BAD_INPUT
    assert re.search(
        rf"needs packages that are not installed: .*\n  try: pip install 'encamp\[{extra}\]'\n$", ended.stderr
    )


@pytest.mark.slow
def test_commands_that_need_no_extra_do_without() -> None:
    every = ",".join(sorted({module for modules in EXTRAS.values() for module in modules}))
    for words in (
        ("--help",),
        ("sandbox", "up", "--help"),
        ("serve", "--help"),
        ("validate", "examples/tuning/job.yaml"),
        ("plan", "examples/tuning/job.yaml"),
        ("manifests", "examples/digits/job.yaml"),
        ("ci", "--help"),
    ):
        assert without(every, *words).returncode == 0, words
