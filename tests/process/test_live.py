from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

import encamp
from encamp.errors import EngineError
from encamp.process import LiveProcess, OutputLine, ProcessSpec, start, stop_all

_PATIENCE = 10.0

#: Every test of it starts processes.
pytestmark = pytest.mark.slow

ENV = {"PATH": os.environ["PATH"]}


def python(code: str, *, grace: float = 5.0, name: str = "probe") -> ProcessSpec:
    return ProcessSpec(name=name, argv=(sys.executable, "-S", "-c", code), env=ENV, grace_seconds=grace)


async def started(spec: ProcessSpec) -> tuple[LiveProcess, list[OutputLine]]:
    """The process, once it has written its first line, and the lines so far (the list goes on growing)."""
    lines: list[OutputLine] = []
    first = asyncio.Event()

    def collect(line: OutputLine) -> None:
        lines.append(line)
        first.set()

    process = await start(spec, output=collect)
    await asyncio.wait_for(first.wait(), 10)
    return process, lines


def test_an_outcome_says_how_a_process_ended_and_what_it_took() -> None:
    async def run() -> None:
        process = await start(python("x = bytearray(50_000_000); raise SystemExit(7)"))
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.signal, outcome.code, outcome.ok) == (7, None, 7, False)
        assert outcome.peak_memory_bytes > 50_000_000
        assert 0 < outcome.cpu_seconds < 10
        assert outcome.started_at <= outcome.ended_at
        assert str(outcome) == "probe exited with 7"

    asyncio.run(run())


def test_a_signal_is_told_from_an_exit_code() -> None:
    async def run() -> None:
        process = await start(python("import os; os.kill(os.getpid(), 9)"))
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.signal, outcome.code) == (None, 9, 137)
        assert str(outcome) == "probe was ended by SIGKILL"

    asyncio.run(run())


def test_both_streams_come_in_the_order_they_were_written() -> None:
    async def run() -> None:
        lines: list[str] = []
        code = "import os\nfor i in range(50): os.write(1 + i % 2, b'%d\\n' % i)"
        process = await start(python(code), output=lambda line: lines.append(line.text))
        await process.wait()
        assert lines == [str(index) for index in range(50)]

    asyncio.run(run())


def test_a_file_descriptor_takes_output_without_us(tmp_path: Path) -> None:
    async def run() -> None:
        with (tmp_path / "out").open("wb") as file:
            process = await start(python("print('to the file')"), output=file.fileno())
            assert (await process.wait()).ok

    asyncio.run(run())
    assert (tmp_path / "out").read_text() == "to the file\n"


def test_a_prompt_without_a_line_end_is_seen_while_the_process_waits() -> None:
    async def run() -> None:
        process, lines = await started(python("import os, time; os.write(1, b'ready?'); time.sleep(60)"))
        assert lines == [OutputLine(b"ready?", ended=False)]
        await process.stop(1)

    asyncio.run(run())


def test_a_process_that_ends_on_request_is_not_killed() -> None:
    async def run() -> None:
        code = "import signal,time,sys\nsignal.signal(15, lambda *a: sys.exit(3))\nprint(1, flush=True)\ntime.sleep(60)"
        process, _ = await started(python(code))
        assert process.running
        assert (await process.stop()).exit_code == 3
        assert not process.running

    asyncio.run(run())


def test_processes_that_ignore_the_request_are_killed_together_after_one_grace_period() -> None:
    async def run() -> None:
        code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(60)"
        live = [(await started(python(code, grace=0.5)))[0] for _ in range(4)]
        outcomes = await stop_all(live)
        assert [outcome.signal for outcome in outcomes] == [signal.SIGKILL] * 4

    asyncio.run(run())


GRANDCHILD = """
import os, signal, sys, time
def grandchild(change_session, orphan):
    if os.fork() == 0:
        if change_session: os.setsid()
        if orphan and os.fork(): os._exit(0)
        signal.signal(15, signal.SIG_IGN)
        os.write(1, b'%d\\n' % os.getpid())
        time.sleep(60)
        os._exit(0)
for change_session in (False, True):
    for orphan in (False, True):
        grandchild(change_session, orphan)
time.sleep(LIFE)
"""


@pytest.mark.parametrize("life", ["0.5", "60"], ids=["the leader ends", "we stop it"])
def test_nothing_that_a_process_started_outlives_it(life: str) -> None:
    async def run() -> list[int]:
        process, lines = await started(python(GRANDCHILD.replace("LIFE", life)))
        async with asyncio.timeout(10):
            while len(lines) < 4:  # noqa: ASYNC110 - the list grows by a callback that is not ours
                await asyncio.sleep(0.02)
        pids = [int(line.text) for line in lines]
        await (process.stop(0.3) if life == "60" else process.wait())
        return pids

    pids = asyncio.run(run())
    assert len(pids) == 4
    left = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
    assert left == []


def test_a_process_dies_with_a_supervisor_that_is_killed_where_the_kernel_can_do_that() -> None:
    code = """
import asyncio, os, sys
from encamp.process import ProcessSpec, start
async def run():
    process = await start(ProcessSpec("child", ("sleep", "60"), dict(os.environ)))
    print(process.pid, flush=True)
    await process.wait()
asyncio.run(run())
"""

    async def run() -> int:
        spec = ProcessSpec(
            "supervisor", (sys.executable, "-c", code), {**ENV, "PYTHONPATH": str(Path(encamp.__file__).parents[1])}
        )
        supervisor, lines = await started(spec)
        child = int(lines[0].text)
        assert psutil.pid_exists(child)
        os.kill(supervisor.pid, signal.SIGKILL)
        await supervisor.wait()
        return child

    child = asyncio.run(run())
    # The kernel tells it a moment after its supervisor is gone.
    end = time.monotonic() + (_PATIENCE if sys.platform == "linux" else 0)
    while not _has_ended(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert _has_ended(child) == (sys.platform == "linux")


def _has_ended(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def test_a_process_has_a_session_of_its_own_and_only_the_environment_it_was_given() -> None:
    async def run() -> None:
        process, lines = await started(python("import os; print(os.getsid(0) == os.getpid(), sorted(os.environ))"))
        await process.wait()
        assert lines[0].text.startswith("True ['ENCAMP_PROCESS_TREE', ")
        assert "HOME" not in lines[0].text

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ProcessSpec("x", ("no-such-program-anywhere",), ENV), "no such program"),
        (ProcessSpec("x", (sys.executable,), ENV, cwd=Path("/no/such/folder")), "no such folder"),
    ],
)
def test_what_cannot_be_started_is_said(spec: ProcessSpec, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        asyncio.run(start(spec))


def test_many_processes_run_at_once_and_end_together() -> None:
    async def run() -> None:
        live = [await start(ProcessSpec(f"{n}", ("sleep", "30"), ENV)) for n in range(12)]
        assert all(process.running for process in live)
        outcomes = await stop_all(live, 5)
        assert [outcome.signal for outcome in outcomes] == [signal.SIGTERM] * 12

    asyncio.run(run())
