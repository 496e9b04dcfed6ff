from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

RUNS = 20
FLAGS = ("--distributed", "--worker-count", "1", "--parameter-server-count", "1", "--grace", "1")
ACTS = ("chief=listen,greet,note:met,await:go,exit:0", "worker=listen,sleep:600", "ps=listen,sleep:600")


def test_twenty_runs_at_once_have_ports_of_their_own_and_lose_none(
    load_module: Callable[[str, str], Any], tmp_path: Path
) -> None:
    module = load_module("encamp_test_local_command", "run/local/command.py")
    with contextlib.ExitStack() as stack:
        commands = [
            stack.enter_context(module.local_train(tmp_path / str(number), *FLAGS, arguments=ACTS))
            for number in range(RUNS)
        ]
        # Every replica of every run listens at the same time, and every chief has reached all members of its cluster.
        for command in commands:
            command.wait_for("met", "chief-0-port", "worker-0-port", "ps-0-port")
        ports = [file.read_text() for command in commands for file in command.folder.glob("*-port")]
        assert len(ports) == 3 * RUNS
        assert len(set(ports)) == len(ports)
        for command in commands:
            (command.folder / "go").touch()
        ends = [command.end() for command in commands]
        for command in commands:
            command.assert_gone()
    assert [code for code, _ in ends] == [0] * RUNS, [output for code, output in ends if code]
