"""Processes of one family, and output as it came."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from encamp.process import ProcessSpec, start, tree

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def spec(name: str, family: str | None, code: str = "import time; time.sleep(60)") -> ProcessSpec:
    return ProcessSpec(name, (sys.executable, "-c", code), ENV, family=family)


def test_a_family_is_all_its_trees_and_nobody_else() -> None:
    async def run() -> None:
        first, second, other = [await start(spec(*each)) for each in (("a", "kin"), ("b", "kin"), ("c", "others"))]
        assert {process.pid for process in tree.family("kin")} == {first.pid, second.pid}
        tree.send(tree.family("kin"), signal.SIGKILL)
        assert [(await process.wait()).signal for process in (first, second)] == [signal.SIGKILL] * 2
        assert tree.family("kin") == []
        assert other.running
        assert not other.exited
        await other.stop(0)
        assert other.exited

    asyncio.run(run())


def test_what_a_member_of_a_family_starts_is_of_the_family() -> None:
    async def run() -> None:
        child = (
            "import subprocess as s; k = s.Popen(['sleep', '60'], start_new_session=True); print(flush=True); k.wait()"
        )
        ready = asyncio.Event()
        parent = await start(spec("parent", "kin of a parent", child), output=lambda _line: ready.set())
        await ready.wait()
        found = tree.family("kin of a parent")
        assert len(found) == 2
        assert parent.pid in {process.pid for process in found}
        tree.send(found, signal.SIGKILL)
        await parent.wait()
        assert tree.family("kin of a parent") == []

    asyncio.run(run())


def test_bytes_come_as_they_were_written_before_their_lines() -> None:
    seen: list[bytes] = []

    async def run() -> None:
        code = r"import sys; sys.stdout.buffer.write(b'a\r\nb\rc\xff')"
        process = await start(
            spec("writer", None, code), output=lambda line: seen.append(b"line " + line.data), raw=seen.append
        )
        assert (await process.wait()).ok

    asyncio.run(run())
    assert b"".join(one for one in seen if not one.startswith(b"line ")) == b"a\r\nb\rc\xff"
    assert [one for one in seen if one.startswith(b"line ")] == [b"line a", b"line b", b"line c\xff"]
    assert not seen[0].startswith(b"line ")
