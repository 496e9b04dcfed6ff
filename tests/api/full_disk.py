"""A program for ``test_full_disk``: a service whose record, or whose audit log too, lies on a disk that becomes full.

    python -m tests.api.full_disk FOLDER_ON_THE_DISK FOLDER_OF_THE_AUDIT_LOG

Prints what it saw as JSON. Its own words go to stderr.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.api.test_strangers import probe, serving
from tests.api.test_wire import JOBS, Reply, ask, request
from tests.api.world import PROJECT, World, job, world

if TYPE_CHECKING:
    from collections.abc import Iterator

Address = tuple[str, int]


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Leave not a byte of a disk free."""
    filler = folder / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 1 << 12, 1):
        try:
            while True:
                os.write(descriptor, b"x" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    try:
        yield
    finally:
        os.close(descriptor)
        filler.unlink()


def create(address: Address, name: str) -> Reply:
    sent = job(name)
    # More than what SQLite has left of its last page.
    sent["trainingInput"]["args"] = ["x" * 20_000]
    return ask(address, request("POST", JOBS, sent))


def reads(address: Address) -> list[int]:
    queries = ("", "?filter=state:QUEUED", "?prettyPrint=true")
    paths = [f"{JOBS}/before", *(f"{JOBS}{query}" for query in queries), f"/v1/projects/{PROJECT}:getConfig"]
    return [ask(address, request("GET", path)).code for path in paths]


def changes(address: Address) -> dict[str, Reply]:
    at = f"{JOBS}/before"
    policy = {"policy": {"bindings": [{"role": "roles/ml.viewer", "members": ["user:eve@example.com"]}]}}
    return {
        "create": create(address, "during"),
        "cancel": ask(address, request("POST", f"{at}:cancel", {})),
        "patch": ask(address, request("PATCH", f"{at}?updateMask=labels", {"labels": {"a": "b" * 60}})),
        "setIamPolicy": ask(address, request("POST", f"{at}:setIamPolicy", policy)),
    }


def seen(found: World, address: Address, disk: Path) -> dict[str, Any]:
    codes: dict[str, Any] = {"before": create(address, "before").code}
    with full(disk):
        refused = changes(address)
        codes["refused"] = {name: (one.code, one.status) for name, one in refused.items()}
        codes["said"] = sorted({one.data["error"]["message"] for one in refused.values()})
        codes["read"] = sorted({code for _ in range(250) for code in reads(address)})
        codes["probes"] = [probe(address, path) for path in ("/healthz", "/readyz")]
        codes["again"] = create(address, "during").code
    codes["after"] = {name: one.code for name, one in changes(address).items()}
    codes["jobs"] = sorted(record.job_id for record in found.records.records())
    return codes


def main() -> None:
    disk, audit = map(Path, sys.argv[1:])
    with world(disk, audit=audit / "audit.jsonl") as found:
        with serving(found) as address:
            codes = seen(found, address, disk)
        found.audit.close()
    lines = [json.loads(line)["protoPayload"] for line in (audit / "audit.jsonl").read_text().splitlines()]
    verbs = Counter((one["methodName"].rpartition(".")[2], one["status"].get("code", 0)) for one in lines)
    codes["audited"] = {f"{verb} {code}": count for (verb, code), count in sorted(verbs.items())}
    codes["counted"] = sum(one.get("metadata", {}).get("calls", 0) for one in lines)
    sys.stdout.write(json.dumps(codes))


if __name__ == "__main__":
    main()
