from __future__ import annotations

import io

from encamp_sandbox.tools import BuildLines, BuildProgress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _build(lines: BuildLines) -> None:
    for second in range(40):
        lines.show(BuildProgress("etcd", float(second), f"compiling package {second}"))
    lines.show(BuildProgress("etcd", 40.0, "v3.6.16 built", done=True))
    lines.close_line()


def test_a_file_gets_a_line_now_and_then() -> None:
    stream = io.StringIO()
    _build(BuildLines(stream))
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["0:00", "0:15", "0:30", "0:40"]


def test_a_terminal_gets_one_line_that_changes() -> None:
    stream = _Terminal()
    _build(BuildLines(stream))
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith("v3.6.16 built\n")
    assert "compiling package 17" in stream.getvalue()
