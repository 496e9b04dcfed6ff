"""The image of encamp itself: what it copies is there, and what it installs is all that encamp needs."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from encamp.cli.containerfile import command
from encamp.errors import UsageError
from encamp.installed import applies, own_requirements
from encamp.new_project import project_files, write_project

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text() -> str:
    answer = CliRunner().invoke(command, ["--encamp"], catch_exceptions=False)
    assert answer.exit_code == 0
    return answer.output


def test_what_is_copied_from_the_checkout_is_there(text: str) -> None:
    copied = re.findall(r"^COPY --chown=65532 (\S+) \S+$", text, re.MULTILINE)
    assert copied == ["requirements.lock", "Pulumi.yaml", "infra", "templates", "stacks"]
    assert all((ROOT / name).exists() for name in copied)


def test_a_project_of_ones_own_installs_its_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path, project_files("camp"))
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(command, ["--encamp"], catch_exceptions=False)
    copied = re.findall(r"^COPY --chown=65532 (\S+) \S+$", answer.output, re.MULTILINE)
    assert copied == ["requirements.txt", "Pulumi.yaml", "infra", "stacks"]
    assert all((tmp_path / name).exists() for name in copied)
    assert "pip install --no-cache-dir --requirement requirements.txt\n" in answer.output
    assert "requirements.lock" not in answer.output
    assert answer.output.endswith('ENV PATH=/encamp/.venv/bin:${PATH}\nENTRYPOINT ["encamp"]\n')


def test_engine_and_plugins_are_those_of_the_lock(text: str) -> None:
    lock = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert f"pulumi/pulumi-python:{lock['pulumi']}\n" in text
    assert f"plugin install resource gcp {lock['pulumi-gcp']} " in text
    assert f"plugin install resource kubernetes {lock['pulumi-kubernetes']}\n" in text


def test_the_lock_without_trainers_holds_all_that_encamp_needs(text: str) -> None:
    script = re.search(r"awk '([^']+)'", text)
    assert script is not None
    lock = ROOT / "requirements.lock"
    kept = subprocess.run(["awk", script[1], str(lock)], capture_output=True, text=True, check=True).stdout
    names = {canonicalize_name(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", kept, re.MULTILINE)}
    assert "tensorflow" not in names
    assert kept.count("--hash=sha256:") > len(names)
    asked = {"postgres", "serve", "tuning"}
    wanted = [need for need in own_requirements() if applies(need, {*asked, ""})]
    assert wanted
    assert {one for need in wanted for one in _needed(need.name, need.extras)} <= names


def _needed(name: str, extras: set[str]) -> set[str]:
    """A package and all that it needs here."""
    found: set[str] = set()
    waiting = [(canonicalize_name(name), extras)]
    while waiting:
        package, asked = waiting.pop()
        if package in found:
            continue
        found.add(package)
        try:
            needs = requires(package) or []
        except PackageNotFoundError:
            continue
        for text in needs:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*asked, "")):
                waiting.append((canonicalize_name(need.name), set(need.extras)))
    return found


def test_it_runs_as_nobody_in_particular(text: str) -> None:
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    assert users == ["65532"]
    assert text.index("USER 65532") < text.index("COPY --chown=65532 infra")


@pytest.mark.parametrize("words", [["--encamp", "2.11"], ["--encamp", "--gpu"], []])
def test_it_is_one_image_or_the_other(words: list[str]) -> None:
    with pytest.raises(UsageError):
        CliRunner().invoke(command, words, catch_exceptions=False)


def test_every_image_and_tool_in_it_has_an_exact_version(text: str) -> None:
    images = re.findall(r"^ARG \w+=(docker\.io/\S+)$", text, re.MULTILINE)
    assert len(images) == 2
    for image in images:
        assert re.search(r":\d+\.\d+\.\d+(-[\w-]+)?$|@sha256:[0-9a-f]{64}$", image), image
    assert re.search(r"gke-gcloud-auth-plugin=\d+\.\d+\.\d+-\d+ ", text)
