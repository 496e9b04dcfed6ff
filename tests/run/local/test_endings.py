from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

from encamp.cli.main import cli
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Replicas of the default cluster, and what a family leaves.
CLUSTER = ("chief-0", "worker-0", "worker-1", "ps-0", "ps-1")
SMALL = ("--distributed", "--worker-count", "1", "--parameter-server-count", "1", "--grace", "0.3")


@pytest.fixture
def train(load_module: Callable[[str, str], Any], tmp_path: Path) -> Callable[..., Any]:
    """Calls ``encamp local train`` in a folder of its own; a context."""
    module = load_module("encamp_test_local_command", "run/local/command.py")

    def call(*flags: str, told: tuple[str, ...] = (), **given: Any) -> Any:
        return module.local_train(tmp_path, *flags, arguments=told, **given)

    return call


def row(output: str, replica: str) -> list[str]:
    """A replica's row of the table, its cells."""
    (line,) = [line for line in output.splitlines() if re.match(rf"{replica} {{2,}}(?!\|)", line)]
    return re.split(r" {2,}", line)


@pytest.mark.parametrize(("acts", "code"), [("exit:0", 0), ("exit:7", 7), ("kill:9", 137)])
def test_the_primarys_end_ends_the_job_and_its_exit_code_is_the_commands(train: Any, acts: str, code: int) -> None:
    with train(*SMALL, told=(f"chief=await:worker-0,await:ps-0,{acts}", "ps=ignore,sleep:600")) as command:
        ended, output = command.end()
        command.assert_gone()
    assert ended == code, output
    assert row(output, "master-replica-0")[1] == ("137 (signal 9)" if code == 137 else str(code))
    assert row(output, "worker-replica-0")[1] == "143 (signal 15), stopped"
    assert row(output, "ps-replica-0")[1] == "137 (signal 9), stopped"


def test_children_and_grandchildren_that_ignore_the_request_are_gone_too(train: Any) -> None:
    acts = ("chief=await:worker-0-grandchild,family,exit:0", "worker=family,ignore,sleep:600")
    with train(*SMALL, told=acts) as command:
        ended, output = command.end()
        assert command.has("chief-0-child", "chief-0-grandchild", "worker-0-child", "worker-0-grandchild"), output
        command.assert_gone()
    assert ended == 0, output


def test_a_worker_that_fails_ends_a_job_that_waits_for_it_and_is_named(train: Any) -> None:
    acts = ("chief=sleep:600", "worker0=await:ps-0,await:chief-0,print:no data at /nowhere,exit:3")
    with train("--distributed", "--grace", "0.3", told=acts) as command:
        ended, output = command.end()
        command.assert_gone()
    assert ended == 1, output
    assert "worker-replica-0 | no data at /nowhere" in output
    assert "worker-replica-0 exited with 3" in output
    assert output.count("  | no data at /nowhere") == 1
    assert row(output, "worker-replica-0")[1] == "3"
    assert row(output, "master-replica-0")[1].endswith(", stopped")


def test_a_job_that_is_to_keep_going_ends_as_its_primary_does(train: Any) -> None:
    acts = ("chief=await:failing,sleep:0.3,exit:0", "worker=note:failing,exit:3")
    with train(*SMALL, "--keep-going", told=acts) as command:
        ended, output = command.end()
        command.assert_gone()
    assert ended == 0, output
    assert "worker-replica-0 exited with 3" in output


def test_a_worker_that_is_done_ends_nothing(train: Any) -> None:
    with train(*SMALL, told=("chief=await:done,sleep:0.2,exit:5", "worker=note:done,exit:0")) as command:
        ended, output = command.end()
    assert ended == 5, output
    assert row(output, "worker-replica-0")[1] == "0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_signal_to_the_command_leaves_a_process(train: Any, number: signal.Signals) -> None:
    acts = ("chief=ignore,sleep:600", "worker=family,sleep:600", "ps=ignore,sleep:600")
    with train(*SMALL, told=acts) as command:
        command.wait_for("chief-0", "ps-0", "worker-0-child", "worker-0-grandchild")
        os.killpg(command.process.pid, number)
        ended, output = command.end()
        command.assert_gone()
    assert ended == (-number if number == signal.SIGKILL else 128 + number), output


@pytest.mark.parametrize(
    ("number", "processes"),
    [
        (signal.SIGINT, 4),
        (signal.SIGHUP, 4),
        (signal.SIGTERM, 1),
        (signal.SIGTERM, 7),
        *((signal.SIGKILL, processes) for processes in (2, 4, 9)),
    ],
)
def test_no_signal_during_the_launch_leaves_a_process(train: Any, number: signal.Signals, processes: int) -> None:
    """``processes`` says how many there are when it comes: the command, its guardian, replicas."""
    flags = ("--distributed", "--worker-count", "8", "--parameter-server-count", "3", "--grace", "0.2")
    with train(*flags) as command:
        while len(command.processes()) < processes and command.process.poll() is None:
            time.sleep(0.001)
        os.killpg(command.process.pid, number)
        command.end()
        command.assert_gone()
        assert command.process.returncode != 0


def test_a_kill_while_replicas_are_being_stopped_leaves_no_process(train: Any) -> None:
    flags = ("--distributed", "--grace", "60")
    with train(*flags, told=("chief=await:ps-1,await:worker-1,exit:0", "ps=ignore,family,sleep:600")) as command:
        command.wait_for("ps-0-grandchild", "ps-1-grandchild", "chief-0")
        time.sleep(0.3)
        assert command.processes()
        command.process.kill()
        command.assert_gone()


def test_a_second_signal_does_not_wait_for_the_grace_period(train: Any) -> None:
    with train("--grace", "600", told=("chief=ignore,print:ready,sleep:600",)) as command:
        command.wait_for("chief-0")
        command.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert command.process.poll() is None
        command.process.send_signal(signal.SIGTERM)
        ended, output = command.end()
        command.assert_gone()
    assert ended == 128 + signal.SIGTERM, output


def test_a_replica_that_is_started_again_is_the_same_member_of_the_cluster(train: Any) -> None:
    acts = ("chief=await:worker-1-again,exit:0", "worker1=listen,once:9,sleep:600")
    with train("--distributed", "--max-restarts", "1", "--grace", "0.3", told=acts) as command:
        ended, output = command.end()
    assert ended == 0, output
    died = (command.folder / "worker-1-died").read_text()
    assert died == (command.folder / "worker-1-again").read_text()
    assert '"index": 1' in died
    assert row(output, "worker-replica-1")[-1] == "1"


def test_a_permanent_failure_is_not_tried_again(train: Any) -> None:
    with train("--max-restarts", "3", told=("chief=print:tried,exit:3",)) as command:
        ended, output = command.end()
    assert ended == 3, output
    assert output.count("| tried") == 1


def test_a_job_goes_on_from_its_checkpoint(train: Any, tmp_path: Path) -> None:
    with train("--job-dir", str(tmp_path / "out"), "--max-restarts", "1", told=("chief=steps:6",)) as command:
        ended, output = command.end()
    assert ended == 0, output
    assert re.findall(r"begins at step \d", output) == ["begins at step 0", "begins at step 3"]
    assert (tmp_path / "out" / "checkpoint").read_text() == "6"


def test_the_table_says_what_each_replica_took(train: Any) -> None:
    with train(told=("chief=burn:120,exit:0",)) as command:
        _, output = command.end()
    _, _, duration, memory, cpu, restarts = row(output, "master-replica-0")
    assert int(memory.removesuffix(" MiB")) >= 120
    assert float(cpu.removesuffix(" s")) >= 0.2
    assert float(duration.removesuffix(" s")) >= 0.2
    assert restarts == "0"


def test_bars_are_readable_and_logs_are_whole(train: Any, tmp_path: Path) -> None:
    bar = b"\r10%\r50%\r100%\r\nno end \xff"
    with train("--log-dir", str(tmp_path / "logs"), told=(f"chief=print:begins,write:{bar.hex()}",)) as command:
        ended, output = command.end()
    assert ended == 0, output
    lines = [line for line in output.splitlines() if line.startswith("master-replica-0 | ")]
    assert lines[0] == "master-replica-0 | begins"
    assert lines[-2:] == ["master-replica-0 | 100%", "master-replica-0 | no end \\xff"]
    assert (tmp_path / "logs" / "master-replica-0.log").read_bytes() == b"begins\n" + bar


def test_a_reader_that_goes_away_does_not_end_the_job(train: Any) -> None:
    reading, writing = os.pipe()
    with train(told=("chief=print:one,await:go,print:two,exit:4",), stdout=writing) as command:
        os.close(writing)
        command.wait_for("chief-0")
        os.close(reading)
        (command.folder / "go").touch()
        assert command.end()[0] == 4


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--module-name", "trainer.tusk"), "did you mean trainer.task?"),
        (("--package-path", "trianer"), "did you mean trainer?"),
        (("--package-path", "."), "has no __init__.py"),
        (("--job-dir", "trainer/task.py"), "is a file"),
        (("--distributed", "--worker-count", "-1"), "--worker-count"),
        (("--python", "no-such-python"), "no-such-python"),
        (("--max-replicas", "1"), "--max-replicas"),
        (("--epochs", "3"), "--epochs"),
        (("epochs",), "epochs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_before_any_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], says: str
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    (tmp_path / "trainer").mkdir()
    for name in ("__init__.py", "task.py"):
        (tmp_path / "trainer" / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fork", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    call = ["local", "train", "--module-name", "trainer.task", "--package-path", "trainer", *flags]
    with pytest.raises((UsageError, click.UsageError)) as refused:
        cli.main(call, standalone_mode=False)
    assert says in f"{refused.value} {getattr(refused.value, 'message', '')}"


def test_a_log_folder_that_cannot_be_is_refused_before_any_process_is_started(train: Any) -> None:
    with train("--log-dir", "/dev/null/logs", told=("chief=exit:0",)) as command:
        ended, output = command.end()
    assert ended == 2, output
    assert "--log-dir: '/dev/null/logs' cannot be written" in output
    assert not command.has("chief-0")


def test_ports_that_are_taken_are_named_before_any_process_is_started(train: Any) -> None:
    first = ("--distributed", "--worker-count", "1", "--parameter-server-count", "0", "--start-port", "27999")
    with train(*first, told=("chief=listen,sleep:600",)) as holder:
        holder.wait_for("chief-0-port")
        (holder.folder / "chief-0").unlink()
        with train(*first) as command:
            ended, output = command.end()
        assert ended == 2, output
        assert "27999" in output
        assert not command.has("chief-0")
        holder.process.send_signal(signal.SIGTERM)
        holder.end()


def test_the_command_takes_no_input_from_replicas_terminal(train: Any) -> None:
    with train(told=("chief=exit:0",), stdout=subprocess.DEVNULL) as command:
        assert command.end() == (0, "")
