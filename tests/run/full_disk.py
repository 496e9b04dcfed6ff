"""A program for ``test_full_disk``: record, spool, the sandbox's storage and the engine's backend on a full disk.

    python -m tests.run.full_disk FOLDER_ON_THE_DISK FOLDER_ELSEWHERE

Prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.api.full_disk import full

from encamp.errors import EncampError
from encamp.run.engine.job_engine import JobEngine
from encamp.run.logs.spool import ReplicaLog
from encamp.run.store.records import Records
from encamp_sandbox.storage.api import StorageServer
from encamp_sandbox.tools import installed

LINES = b"".join(b"2026-01-01T00:00:%02dZ line %d %s\n" % (n, n, b"x" * 2000) for n in range(30))


def told(error: EncampError) -> dict[str, str | None]:
    return {"what": error.what, "where": error.where, "hint": error.hint}


def record(disk: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with contextlib.closing(Records.open(None, disk)) as records:
        lease = records.begin("j", "j", {"a": 1})
        with full(disk):
            try:
                # More than what SQLite has left of its last page.
                for _ in range(20):
                    records.append(lease, "note", {"n": "x" * 20_000})
            except EncampError as error:
                found = told(error)
            read = records.record("j")
        during = len(read.entries) if read is not None else 0
        records.append(lease, "after", {})
        after = records.record("j")
    assert after is not None
    kinds = [entry.kind for entry in after.entries if entry.kind != "note"]
    return {**found, "during": during, "kinds": kinds, "damaged": after.damaged}


def opening(disk: Path) -> dict[str, Any]:
    new = disk / "new"
    new.mkdir()
    with full(disk):
        try:
            Records.open(None, new)
        except EncampError as error:
            return told(error)
    return {}


def spool(disk: Path) -> dict[str, Any]:
    log = ReplicaLog(disk / "logs", "master-replica-0", lambda *_: None)
    log.feed(LINES[: len(LINES) // 2])
    refused = ""
    with full(disk):
        try:
            log.feed(LINES[len(LINES) // 2 :])
        except OSError as error:
            refused = str(error.strerror)
    log.reconnect()
    log.feed(LINES)
    log.end(None, complete=True)
    text = log.path.read_bytes()
    return {"refused": refused, "lines": text.count(b"line "), "complete": log.state["complete"]}


def storage(disk: Path) -> dict[str, Any]:
    server = StorageServer(disk / "storage", "t")
    content = os.urandom(3 << 20)

    async def seen() -> dict[str, Any]:
        transport = httpx.ASGITransport(server)
        headers = {"authorization": "Bearer t"}
        async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=headers) as client:
            await client.post("/storage/v1/b?project=p", json={"name": "bucket"})
            at = "/upload/storage/v1/b/bucket/o?uploadType=media&name=o"
            started = await client.post("/upload/storage/v1/b/bucket/o?uploadType=resumable&name=r", json={})
            session = started.headers["location"]
            with full(disk):
                refused = await client.post(at, content=content)
                again = await client.put(session, content=content)
            stored = await client.post(at, content=content)
            asked = await client.put(session, headers={"content-range": f"bytes */{len(content)}"})
            resumed = await client.put(session, content=content)
            read = [(await client.get(f"/storage/v1/b/bucket/o/{name}?alt=media")).content for name in "or"]
        return {
            "refused": [refused.status_code, refused.json()["error"]["message"]],
            "again": again.status_code,
            "asked": asked.status_code,
            "stored": [stored.status_code, resumed.status_code],
            "same": [one == content for one in read],
        }

    try:
        return asyncio.run(seen())
    finally:
        server.close()


def backend(disk: Path, apart: Path) -> dict[str, Any]:
    os.environ["PATH"] = f"{installed()['pulumi'].parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"PULUMI_BACKEND_URL": f"file://{disk}", "PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_HOME": str(apart)}
    (apart / "Pulumi.yaml").write_text("name: encamp\nruntime: python\n")
    engine = JobEngine(apart, lambda _: None)
    engine.create("before")
    found: dict[str, Any] = {}
    with full(disk):
        try:
            engine.create("during")
        except EncampError as error:
            found = told(error)
    engine.create("after")
    return {**found, "stacks": sorted(engine.stacks())}


def main() -> None:
    disk, apart = map(Path, sys.argv[1:])
    looks = {"record": record, "opening": opening, "spool": spool, "storage": storage}
    found = {}
    for name, look in looks.items():
        folder = disk / name
        folder.mkdir()
        found[name] = look(folder)
    found["backend"] = backend(disk, apart)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
