from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp_sandbox.supervisor.logs import bound_log, last_lines, open_log

if TYPE_CHECKING:
    from pathlib import Path


def test_a_long_log_is_moved_aside_while_somebody_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    descriptor = open_log(path, "start 1")
    os.write(descriptor, b"x" * 2000)
    assert not bound_log(path, 4000)
    os.write(descriptor, b"y" * 3000)
    assert bound_log(path, 4000)
    os.write(descriptor, b"afterwards\n")
    os.close(descriptor)
    assert path.read_bytes() == b"afterwards\n"
    assert path.with_name("server.log.1").stat().st_size > 5000


def test_a_log_that_is_not_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert not bound_log(tmp_path / "none.log", 1)
    assert last_lines(tmp_path / "none.log", 3) == []


def test_a_log_is_private_and_its_last_lines_are_the_processs_own(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    for number in range(3):
        descriptor = open_log(path, f"start {number}")
        os.write(descriptor, f"said {number}\n\n".encode())
        os.close(descriptor)
    assert path.stat().st_mode & 0o777 == 0o600
    assert last_lines(path, 2) == ["said 1", "said 2"]
