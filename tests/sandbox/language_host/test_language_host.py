"""The language host under the real engine: programs without providers."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

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


def outputs(project: Any) -> dict[str, Any]:
    return json.loads(project.run("stack", "output", "--json", "--show-secrets", "-s", "dev"))


def test_a_program_runs_as_under_the_official_host(engine_project: Any) -> None:
    engine_project.program(PROGRAM)
    infra = engine_project.folder / "infra"
    (infra / "helper.py").write_text("VALUE = 'from beside it'\n")
    (infra / "later.py").write_text("VALUE = 'while it ran'\n")
    engine_project.run("config", "set", "plain", "text", "-s", "dev")
    engine_project.run("config", "set", "--secret", "hidden", "s3cret", "-s", "dev")
    preview = engine_project.run("preview", "-s", "dev")
    assert "printed by the program" in preview
    assert "printed as an error" in preview
    assert "warning" not in preview
    engine_project.run("up", "--yes", "-s", "dev")
    found = outputs(engine_project)
    assert found == {
        "cwd": str(infra),
        "first": str(infra),
        "argv": [str(infra)],
        "main": "__main__",
        "helped": "from beside it",
        "plain": "text",
        "hidden": "s3cret",
        "where": ["tiny", "dev", "organization"],
        "root": str(engine_project.folder),
        "imported_later": "while it ran",
    }
    state = (engine_project.folder / "state" / ".pulumi" / "stacks" / "tiny" / "dev.json").read_text()
    assert "s3cret" not in state
    engine_project.run("preview", "--expect-no-changes", "-s", "dev")
    destroyed = engine_project.run("destroy", "--yes", "-s", "dev")
    assert "2 deleted" in destroyed


def test_a_run_error_shows_its_message_only(engine_project: Any) -> None:
    engine_project.program("import pulumi\nraise pulumi.RunError('there is no such job')\n")
    said = engine_project.run("preview", "-s", "dev", code=1)
    assert "error: there is no such job" in said
    assert "Traceback" not in said


def test_a_bug_shows_the_programs_own_traceback(engine_project: Any) -> None:
    engine_project.program("def f():\n    return {}['missing']\n\nf()\n")
    said = engine_project.run("preview", "-s", "dev", code=1)
    assert "Traceback (most recent call last)" in said
    assert f'{engine_project.folder}/infra/__main__.py", line 2, in f' in said
    assert "KeyError: 'missing'" in said
    assert "runpy" not in said
    assert "encamp" not in said


def test_an_exception_in_an_apply_fails_the_run(engine_project: Any) -> None:
    engine_project.program("import pulumi\npulumi.export('x', pulumi.Output.from_input(1).apply(lambda _: 1 / 0))\n")
    said = engine_project.run("up", "--yes", "--skip-preview", "-s", "dev", code=1)
    assert "ZeroDivisionError: division by zero" in said


@pytest.mark.parametrize(("end", "code"), [("sys.exit(0)", 0), ("sys.exit('no')", 1)])
def test_a_program_that_exits(engine_project: Any, end: str, code: int) -> None:
    engine_project.program(f"import sys\n{end}\n")
    assert "Previewing update" in engine_project.run("preview", "-s", "dev", code=code)


def test_about_names_the_interpreter(engine_project: Any) -> None:
    about = json.loads(engine_project.run("about", "--json", "-s", "dev"))
    assert about["runtime"]["version"].startswith("3.")
    assert any(item["name"] == "pulumi" for item in about["dependencies"])


def test_install_has_nothing_to_do(engine_project: Any) -> None:
    assert "dependencies" in engine_project.run("install").lower()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_host_outlives_its_engine(
    engine_project: Any, number: signal.Signals, until: Callable[[Callable[[], bool]], None]
) -> None:
    mark = engine_project.folder / "mark"
    engine_project.program(f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)\n")
    process = engine_project.start("preview", "-s", "dev")
    until(mark.exists)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(number)
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))
    said, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "Traceback" not in said
