from __future__ import annotations

import contextlib
import os
import pty
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from encamp.errors import UsageError
from encamp.process import OutputLine, ProcessOutcome
from encamp.run.local.console import RunConsole, opened_console, summary_table
from encamp.run.local.model import LocalReplica, ReplicaEnd
from encamp.run.local.terminal import TerminalWriter
from encamp.spec.roles import Role

BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def end(
    name: str, code: int | None = 0, *, number: int | None = None, seconds: float = 1.25, stopped: bool = False,
    last: tuple[str, ...] = (), restarts: int = 0,
) -> ReplicaEnd:  # fmt: skip
    outcome = ProcessOutcome(
        name,
        4711,
        code,
        number,
        BEGUN,
        BEGUN + timedelta(seconds=seconds),
        peak_memory_bytes=300 << 20,
        cpu_seconds=0.5,
    )
    return ReplicaEnd(name, outcome, last, restarts, stopped)


def test_the_table_says_of_each_replica_how_it_ended_and_what_it_took() -> None:
    ends = [
        end("master-replica-0", seconds=3723.4),
        end("worker-replica-0", 3, restarts=2),
        end("ps-replica-0", None, number=9, stopped=True),
    ]
    assert summary_table(ends).splitlines() == [
        "replica           exit code                duration  peak memory  CPU time  restarts",
        "master-replica-0  0                        1:02:03   300 MiB      0.5 s     0",
        "worker-replica-0  3                        1.2 s     300 MiB      0.5 s     2",
        "ps-replica-0      137 (signal 9), stopped  1.2 s     300 MiB      0.5 s     0",
    ]


def replica(role: Role) -> LocalReplica:
    return LocalReplica(f"{role.value}-replica-0", role, 0, ("python3",), {}, Path("/"))


def test_ends_are_told_of_and_the_last_lines_of_failures_stand_at_the_end() -> None:
    written: list[str] = []
    console = RunConsole(written.append, ["master-replica-0", "worker-replica-0", "ps-replica-0"], clock=lambda: 0.0)
    for role in (Role.MASTER, Role.WORKER, Role.PARAMETER_SERVER):
        console.started(replica(role), 0)
    console.line("worker-replica-0", OutputLine(b"ValueError: no data"))
    failed = end("worker-replica-0", 1, last=console.tail("worker-replica-0"))
    # What the failure of another than the primary leads to is a note of the run.
    console.ended(failed)
    assert written == ["worker-replica-0 | ValueError: no data\n"]
    console.ended(end("master-replica-0", 3))
    assert written[1:] == ["[   0.0s] master-replica-0 exited with 3 after 1.2 s\n"]
    console.ended(end("ps-replica-0", None, number=15, stopped=True))
    assert len(written) == 2
    console.summary([end("ps-replica-0", None, number=15, stopped=True, last=("x",)), failed])
    account = "".join(written[2:])
    assert (
        "\nthe last lines of worker-replica-0 (worker-replica-0 exited with 1):\n  | ValueError: no data\n" in account
    )
    assert "the last lines of ps" not in account


def test_restarts_are_told_of_and_first_starts_are_not() -> None:
    written: list[str] = []
    console = RunConsole(written.append, ["worker-replica-0"], clock=lambda: 0.0)
    console.started(replica(Role.WORKER), 0)
    console.line("worker-replica-0", OutputLine(b"half a", ended=False))
    console.paused("worker-replica-0")
    console.started(replica(Role.WORKER), 1)
    assert written == ["worker-replica-0 | half a\n", "[   0.0s] worker-replica-0 starts again (1)\n"]


def test_a_log_file_holds_every_byte_of_its_replica(tmp_path: Path) -> None:
    logs = tmp_path / "deep" / "logs"
    written: list[str] = []
    console = RunConsole(written.append, ["a", "b"], logs=logs)
    for data in (b"1%\r2%\r\n", b"\xff\x00\x1b[31m", b"no end"):
        console.raw("a", data)
    console.close()
    assert (logs / "a.log").read_bytes() == b"1%\r2%\r\n\xff\x00\x1b[31mno end"
    assert (logs / "b.log").read_bytes() == b""
    console.summary([end("a")])
    assert str(logs) in written[-1]


def test_a_folder_for_logs_that_cannot_be_made_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--log-dir: .*file/logs' cannot be written") as refused:
        RunConsole(print, ["a"], logs=tmp_path / "file" / "logs")
    assert refused.value.hint


def test_a_full_disk_ends_a_log_file_and_not_the_run(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").symlink_to("/dev/full")
    written: list[str] = []
    console = RunConsole(written.append, ["a"], logs=logs, clock=lambda: 0.0)
    console.raw("a", b"one")
    console.raw("a", b"two")
    assert written == ["[   0.0s] warning: the log of a ends here: No space left on device\n"]


def test_a_file_gets_plain_text(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file, opened_console(["a"], {"TERM": "xterm"}, stream=file) as console:
        console.line("a", OutputLine(b"\x1b[31mred\x1b[0m"))
        console.line("a", OutputLine(b"10%", redrawn=True))
        console.paused("a")
    assert (tmp_path / "out").read_text() == "a | red\na | 10%\n"


@pytest.mark.parametrize(
    ("environ", "drawn"),
    [
        ({"TERM": "xterm"}, b"\x1b[36ma | \x1b[0m10%\r\x1b[K\x1b[36ma | \x1b[0m20%\r\n"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, b"a | 10%\r\x1b[Ka | 20%\r\n"),
        ({"TERM": "dumb"}, b"a | 10%\r\na | 20%\r\n"),
    ],
)
def test_a_terminal_gets_bars_and_colours_as_it_can_show_them(environ: dict[str, str], drawn: bytes) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, opened_console(["a"], environ, stream=stream) as console:
        console.line("a", OutputLine(b"10%", redrawn=True))
        console.line("a", OutputLine(b"20%"))
    seen = b""
    with os.fdopen(ours, "rb", 0) as terminal, contextlib.suppress(OSError):  # the other side is closed
        while data := terminal.read(4096):
            seen += data
    assert seen == drawn


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, opened_console(["a"], {}, stream=stream) as console:
        for _ in range(100):
            console.note("nobody hears")


def test_a_reader_that_does_not_read_holds_nobody_up_and_gets_all_in_the_end() -> None:
    reading, writing = os.pipe()
    writer = TerminalWriter(writing)
    for index in range(20_000):  # more than a pipe holds
        writer.write(f"{index:09}\n")
    writer.close(0.05)
    received = bytearray()

    def read() -> None:
        while data := os.read(reading, 1 << 16):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    writer.close()
    os.close(writing)
    reader.join()
    os.close(reading)
    assert bytes(received) == b"".join(b"%09d\n" % index for index in range(20_000))


def test_what_the_streams_encoding_cannot_say_is_escaped(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as file, opened_console(["a"], {}, stream=file) as console:
        console.line("a", OutputLine("größer".encode()))
    assert (tmp_path / "out").read_text() == "a | gr\\xf6\\xdfer\n"
