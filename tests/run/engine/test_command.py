"""The CLI's output is whole, however late it is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from pulumi.automation import CommandError

from encamp.run.engine import command
from encamp.run.engine.command import SessionCommand, StackWorkspace, ToldStack

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = 20_000
CLI = f"""#!/bin/sh
[ "$1" = version ] && echo v3.259.0 && exit
if [ "$2" = leave ]; then
    sleep 60 &
    echo $!
fi
seq {LINES}
echo end
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionCommand:
    """A CLI that writes many lines and leaves somebody behind who holds its pipes."""
    program = tmp_path / "pulumi"
    program.write_text(CLI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return SessionCommand()


def test_all_that_it_prints_is_told(cli: SessionCommand, tmp_path: Path) -> None:
    said: list[str] = []
    result = cli.run(["stack"], str(tmp_path), {}, on_output=said.append)
    assert said == result.stdout.split("\n")
    assert said == [*(str(number) for number in range(1, LINES + 1)), "end"]


def test_a_process_left_behind_does_not_hold_the_command(cli: SessionCommand, tmp_path: Path) -> None:
    result = cli.run(["leave"], str(tmp_path), {})
    left, *lines = result.stdout.split("\n")
    try:
        assert psutil.Process(int(left)).status() != psutil.STATUS_ZOMBIE
        assert lines[-1] == "end"
    finally:
        os.kill(int(left), signal.SIGKILL)


@pytest.mark.slow
def test_an_engine_whose_driver_was_killed_finishes_what_it_does(tmp_path: Path, until: Callable[..., None]) -> None:
    (tmp_path / "pulumi").write_text(
        f"""#!/bin/sh
[ "$1" = version ] && echo v3.259.0 && exit
trap 'interrupted=yes' INT
touch {tmp_path}/began
while [ -z "$interrupted" ]; do sleep 0.05; done
seq {LINES}
echo "the last step is done"
echo whole > {tmp_path}/state
"""
    )
    (tmp_path / "pulumi").chmod(0o755)
    run = f"SessionCommand().run(['up'], {str(tmp_path)!r}, {{}})"
    script = f"from encamp.run.engine.command import SessionCommand; {run}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen([sys.executable, "-c", script], env=environment)
    until((tmp_path / "began").exists)
    driver.kill()
    driver.wait()
    until((tmp_path / "state").exists)


def test_a_state_that_is_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_HALF_WRITTEN_SECONDS", 0.0)
    torn = "error: failed to load checkpoint: EOF"
    (tmp_path / "pulumi").write_text(
        f"""#!/bin/sh
[ "$1" = version ] && echo v3.259.0 && exit
echo x >> {tmp_path}/calls
[ $(wc -l < {tmp_path}/calls) -lt 3 ] && echo '{torn}' >&2 && exit 255
[ "$2" = fail ] && echo 'error: another' >&2 && exit 255
echo whole
"""
    )
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert SessionCommand().run(["read"], str(tmp_path), {}).stdout == "whole"
    with pytest.raises(CommandError, match="another"):
        SessionCommand().run(["fail"], str(tmp_path), {})
    assert (tmp_path / "calls").read_text() == "x\n" * 4


@pytest.mark.parametrize("said", ["error: EOF", "error: failed to load checkpoint: EOF"])
def test_a_state_whose_engine_was_killed_over_it_is_mended(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_HALF_WRITTEN_SECONDS", 0.0)
    torn = tmp_path / "states" / ".pulumi" / "stacks" / "encamp" / "job.json.attrs"
    torn.parent.mkdir(parents=True)
    torn.touch()
    os.utime(torn, (0, 0))
    (tmp_path / "pulumi").write_text(
        f"""#!/bin/sh
[ "$1" = version ] && echo v3.259.0 && exit
[ -e {torn} ] && echo '{said}' >&2 && exit 255
echo whole
"""
    )
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/states")
    assert SessionCommand().run(["read"], str(tmp_path), {}).stdout == "whole"
    assert not torn.exists()


@pytest.mark.parametrize("temporary", ["t", "a-long-name-for-temporary-files" * 4])
def test_events_come_by_a_socket_that_only_this_user_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: str
) -> None:
    """The engine sees what its driver listens at, and who may enter the folder of the socket that it was told of."""
    program = tmp_path / "pulumi"
    program.write_text(
        f"""#!{sys.executable}
import os, sys, psutil
from pathlib import Path
if sys.argv[1] == "version":
    sys.exit(print("v3.259.0"))
address = sys.argv[sys.argv.index("--event-log") + 1]
folder = Path(address.removeprefix("tcp://unix:")).parent
ports = [one.laddr.port for one in psutil.Process(os.getppid()).net_connections("tcp") if one.status == "LISTEN"]
print(oct(folder.stat().st_mode & 0o777), folder, *ports)
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / temporary).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))
    workspace = StackWorkspace(work_dir=str(tmp_path), pulumi_command=SessionCommand())
    # What earlier tests of this process left open is not meant.
    before = {one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    mode, folder, *ports = ToldStack("s", workspace).destroy(on_event=lambda _: None).stdout.split()
    assert (mode, set(map(int, ports)) - before) == ("0o700", set())
    assert not Path(folder).exists()
