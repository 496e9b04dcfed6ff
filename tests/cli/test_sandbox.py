from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from encamp.cli.sandbox import command
from encamp.errors import SandboxError
from encamp_sandbox.environment import variables
from encamp_sandbox.layout import ROOT_VARIABLE, Layout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A sandbox in a folder whose name a shell would take apart."""
    made = Layout.create(tmp_path / "it's a $HOME; folder")
    monkeypatch.setenv(ROOT_VARIABLE, str(made.root))
    return made


def test_a_shell_gets_exactly_what_programs_get(layout: Layout) -> None:
    printed = CliRunner().invoke(command, ["env"], catch_exceptions=False).stdout
    script = f"{printed}\nexec /usr/bin/env -0"
    shown = subprocess.check_output(["/bin/sh", "-c", script], text=True, env={"PATH": "/usr/bin"})
    values = {line.partition("=")[0]: line.partition("=")[2] for line in shown.split("\0") if line}
    assert {name: values[name] for name in variables(layout)} == variables(layout)


def test_the_json_form_is_the_same(layout: Layout) -> None:
    printed = CliRunner().invoke(command, ["env", "--format", "json"], catch_exceptions=False).stdout
    assert json.loads(printed) == variables(layout)


def test_the_fish_form_sets_the_path_as_a_list(layout: Layout) -> None:
    printed = CliRunner().invoke(command, ["env", "--format", "fish"], catch_exceptions=False).stdout
    first = str(layout.bin).replace("'", "\\'")
    assert f"set -gx PATH '{first}' '" in printed
    assert shutil.which("fish") is None or subprocess.run(["fish", "-n"], input=printed, text=True).returncode == 0  # noqa: PLW1510


def test_without_a_sandbox_there_is_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "none"))
    for verb in ("env", "status"):
        with pytest.raises(SandboxError, match="encamp sandbox up"):
            CliRunner().invoke(command, [verb], catch_exceptions=False)
    assert CliRunner().invoke(command, ["down"], catch_exceptions=False).exit_code == 0
    assert not (tmp_path / "none").exists()


def test_the_administrators_token_needs_no_process_and_others_do(layout: Layout) -> None:
    assert CliRunner().invoke(command, ["token"], catch_exceptions=False).stdout == f"{layout.token}\n"
    with pytest.raises(SandboxError, match="encamp sandbox up"):
        CliRunner().invoke(command, ["token", "--for", "user:ana@example.com"], catch_exceptions=False)


def test_status_lists_every_process_for_people_and_for_programs(layout: Layout) -> None:
    table = CliRunner().invoke(command, ["status"], catch_exceptions=False)
    assert table.exit_code == 0
    assert "kube-apiserver" in table.stdout
    data = json.loads(CliRunner().invoke(command, ["status", "--format", "json"], catch_exceptions=False).stdout)
    assert data["root"] == str(layout.root)
    assert data["state"] == "stopped"
    assert {"name", "state", "pid", "restarts", "message", "advice", "log"} <= set(data["processes"][0])


def test_reset_asks_first(layout: Layout) -> None:
    refused = CliRunner().invoke(command, ["reset"], input="n\n")
    assert refused.exit_code != 0
    assert layout.config_file.exists()
    assert CliRunner().invoke(command, ["reset", "--yes"], catch_exceptions=False).exit_code == 0
    assert not layout.root.exists()


def test_reset_leaves_a_folder_alone_that_is_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    assert CliRunner().invoke(command, ["reset", "--yes"]).exit_code != 0
    assert (tmp_path / "thesis.txt").exists()
