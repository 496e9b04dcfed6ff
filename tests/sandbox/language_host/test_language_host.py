"""The language host under the real engine: programs without providers."""

from __future__ import annotations

import json
import signal
import site
import subprocess
import sys
import venv
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.sandbox

PROGRAM = """
import os, sys, pathlib
import pulumi
import helper

class Box(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("test:index:Box", name)
        self.register_outputs({})

config = pulumi.Config()
print("printed by the program")
print("printed as an error", file=sys.stderr)
Box("box")
pulumi.export("cwd", os.getcwd())
pulumi.export("first", sys.path[0])
pulumi.export("argv", sys.argv)
pulumi.export("main", __name__)
pulumi.export("helped", helper.VALUE)
pulumi.export("plain", config.get("plain"))
pulumi.export("hidden", config.require_secret("hidden"))
pulumi.export("where", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization()])
pulumi.export("root", pulumi.get_root_directory())
pulumi.export("imported_later", pulumi.Output.from_input(1).apply(lambda _: __import__("later").VALUE))
"""


@pytest.fixture(scope="module")
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the packages of this one, and a module that is only there."""
    folder = tmp_path_factory.mktemp("own") / "environment"
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()))
    (packages / "only_here.py").write_text("VALUE = 'of the virtual environment'\n")
    return folder


def with_virtualenv(project: Any, folder: Path | str) -> None:
    file = project.folder / "Pulumi.yaml"
    settings = yaml.safe_load(file.read_text())
    settings["runtime"] = {"name": "python", "options": {"virtualenv": str(folder)}}
    file.write_text(yaml.safe_dump(settings))


@pytest.fixture(params=["host", "virtualenv"])
def project(engine_project: Any, own_environment: Path, request: pytest.FixtureRequest) -> Any:
    """A project whose program runs in the host's own process, or by the Python of its virtual environment."""
    if request.param == "virtualenv":
        (engine_project.folder / ".venv").symlink_to(own_environment)
        with_virtualenv(engine_project, ".venv")
    return engine_project


def test_the_virtualenv_of_the_project_runs_its_program(engine_project: Any, own_environment: Path) -> None:
    with_virtualenv(engine_project, own_environment)
    engine_project.program(
        "import sys, os, pulumi, only_here\n"
        "pulumi.export('value', only_here.VALUE)\n"
        "pulumi.export('prefix', sys.prefix)\n"
        "pulumi.export('encamp', [name for name in sys.modules if name.partition('.')[0] == 'encamp'])\n"
        "pulumi.export('path', [one for one in sys.path if 'language_host' in one])\n"
    )
    engine_project.run("up", "--yes", "-s", "dev")
    found = outputs(engine_project)
    prefix = str(own_environment)
    assert found == {"value": "of the virtual environment", "prefix": prefix, "encamp": [], "path": []}
    told = json.loads(engine_project.run("about", "--json", "-s", "dev"))
    assert told["runtime"]["executable"] == f"{prefix}/bin/python"
    assert told["runtime"]["version"] == ".".join(map(str, sys.version_info[:3]))


def test_the_environment_of_the_host_itself_needs_no_other_process(engine_project: Any) -> None:
    (engine_project.folder / ".venv").symlink_to(sys.prefix)
    with_virtualenv(engine_project, ".venv")
    engine_project.program(
        "import os, pathlib, pulumi\npulumi.export('command', pathlib.Path('/proc/self/cmdline').read_text())\n"
    )
    engine_project.run("up", "--yes", "-s", "dev")
    assert "encamp_sandbox.language_host" in outputs(engine_project)["command"]


@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
def test_a_virtualenv_that_cannot_run_it_is_named_with_what_to_do(engine_project: Any, *, made: bool) -> None:
    engine_project.program("")
    folder = engine_project.folder / "mine"
    if made:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    with_virtualenv(engine_project, "mine")
    said = engine_project.run("preview", "-s", "dev", code=1)
    assert str(folder) in said
    assert "pip install -r requirements.txt" in said
    assert "Traceback" not in said


def outputs(project: Any) -> dict[str, Any]:
    return json.loads(project.run("stack", "output", "--json", "--show-secrets", "-s", "dev"))


def test_a_program_runs_as_under_the_official_host(project: Any) -> None:
    project.program(PROGRAM)
    infra = project.folder / "infra"
    (infra / "helper.py").write_text("VALUE = 'from beside it'\n")
    (infra / "later.py").write_text("VALUE = 'while it ran'\n")
    project.run("config", "set", "plain", "text", "-s", "dev")
    project.run("config", "set", "--secret", "hidden", "s3cret", "-s", "dev")
    preview = project.run("preview", "-s", "dev")
    assert "printed by the program" in preview
    assert "printed as an error" in preview
    assert "warning" not in preview
    project.run("up", "--yes", "-s", "dev")
    found = outputs(project)
    assert found == {
        "cwd": str(infra),
        "first": str(infra),
        "argv": [str(infra)],
        "main": "__main__",
        "helped": "from beside it",
        "plain": "text",
        "hidden": "s3cret",
        "where": ["tiny", "dev", "organization"],
        "root": str(project.folder),
        "imported_later": "while it ran",
    }
    state = (project.folder / "state" / ".pulumi" / "stacks" / "tiny" / "dev.json").read_text()
    assert "s3cret" not in state
    project.run("preview", "--expect-no-changes", "-s", "dev")
    destroyed = project.run("destroy", "--yes", "-s", "dev")
    assert "2 deleted" in destroyed


def test_a_run_error_shows_its_message_only(project: Any) -> None:
    project.program("import pulumi\nraise pulumi.RunError('there is no such job')\n")
    said = project.run("preview", "-s", "dev", code=1)
    assert "error: there is no such job" in said
    assert "Traceback" not in said


def test_a_bug_shows_the_programs_own_traceback(project: Any) -> None:
    project.program("def f():\n    return {}['missing']\n\nf()\n")
    said = project.run("preview", "-s", "dev", code=1)
    assert "Traceback (most recent call last)" in said
    assert f'{project.folder}/infra/__main__.py", line 2, in f' in said
    assert "KeyError: 'missing'" in said
    assert "runpy" not in said
    assert "encamp" not in said


def test_an_exception_in_an_apply_fails_the_run(project: Any) -> None:
    project.program("import pulumi\npulumi.export('x', pulumi.Output.from_input(1).apply(lambda _: 1 / 0))\n")
    said = project.run("up", "--yes", "--skip-preview", "-s", "dev", code=1)
    assert "ZeroDivisionError: division by zero" in said


@pytest.mark.parametrize(("end", "code"), [("sys.exit(0)", 0), ("sys.exit('no')", 1)])
def test_a_program_that_exits(project: Any, end: str, code: int) -> None:
    project.program(f"import sys\n{end}\n")
    assert "Previewing update" in project.run("preview", "-s", "dev", code=code)


def test_about_names_the_interpreter(engine_project: Any) -> None:
    about = json.loads(engine_project.run("about", "--json", "-s", "dev"))
    assert about["runtime"]["version"].startswith("3.")
    assert any(item["name"] == "pulumi" for item in about["dependencies"])


def test_install_has_nothing_to_do(engine_project: Any) -> None:
    assert "dependencies" in engine_project.run("install").lower()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_host_outlives_its_engine(
    project: Any, number: signal.Signals, until: Callable[[Callable[[], bool]], None]
) -> None:
    mark = project.folder / "mark"
    project.program(f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)\n")
    process = project.start("preview", "-s", "dev")
    until(mark.exists)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(number)
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))
    said, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "Traceback" not in said
