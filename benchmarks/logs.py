"""What sealing costs: a job's logs read from an API server and stored, against a plain copy of the same bytes.

The API server is a fake on loopback, the storage server is the sandbox's own. The floor is one process that sends the
same bytes to the same server by plain resumable uploads, one after another, without reading, checking or a manifest.

    python benchmarks/logs.py [BYTES OF THE LARGE LOG] [REPLICAS]
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parents[1] / "tests"
LINES = b"".join(b"2026-01-01T00:00:01.%09dZ loss 0.%060d\n" % (index, index) for index in range(600))
TEXT = b"".join(b"loss 0.%060d\n" % index for index in range(600))
MIB = 1024 * 1024
_START_SECONDS = 30
BUCKET, TOKEN = "artifacts", "benchmark"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Repeated:
    """A log that repeats some lines, made as it is read: by iteration as the pod's, by ``read`` as text."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._rest = b""

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(LINES, self._times)

    def read(self, count: int) -> bytes:
        """At most ``count`` bytes of the text, none at the end."""
        while len(self._rest) < count and self._times:
            added = min(self._times, count // len(TEXT) + 1)
            self._rest += TEXT * added
            self._times -= added
        piece, self._rest = self._rest[:count], self._rest[count:]
        return piece


def servers() -> Any:
    """The loopback servers of the tests."""
    spec = importlib.util.spec_from_file_location("encamp_test_servers", TESTS / "cloud" / "servers.py")
    if spec is None or spec.loader is None:
        raise SystemExit("the tests' servers are not there")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def put(kubernetes: Any, index: int, times: int) -> None:
    """A pod that has ended, with its log."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "replica", "state": ended}]}
    kubernetes.put("pods", f"p{index}", labels, spec={"nodeName": "node"}, status=status)
    kubernetes.logs[f"p{index}"] = [Repeated(times)]


def sealed(kubernetes: Any, environ: dict[str, str], folder: str) -> dict[str, Any]:
    """Seconds and memory of a driver process that reads and seals them all."""
    given = {
        "kubeconfig": kubernetes.kubeconfig(),
        "environ": environ,
        "headers": HEADERS,
        "folder": folder,
        "bucket": BUCKET,
        "prefix": "jobs/j/",
    }
    ended = subprocess.run(
        [sys.executable, str(TESTS / "run" / "log_driver.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    if not found["stored"]:
        raise SystemExit(f"not sealed: {found['problems']}")
    return found


def copied(environ: dict[str, str], replicas: int, times: int) -> float:
    """Seconds of the floor."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers.update(HEADERS)
        storage = Storage(GoogleClient(session, environ=environ))
        begun = time.perf_counter()
        for index in range(replicas):
            storage.upload(BUCKET, f"floor/{index}", Repeated(times))
        return time.perf_counter() - begun


def measure(name: str, replicas: int, size: int, environ: dict[str, str]) -> None:
    """Seal so many logs of so many bytes, and tell."""
    times = max(1, size // len(TEXT))
    total = replicas * times * len(TEXT) / MIB
    with servers().KubernetesServer() as kubernetes, tempfile.TemporaryDirectory() as folder:
        for index in range(replicas):
            put(kubernetes, index, times)
        floor = copied(environ, replicas, times)
        found = sealed(kubernetes, environ, folder)
    print(f"{name}: {replicas} logs, {total:.1f} MiB")
    print(f"  floor    plain copy           {floor:7.1f} s  {total / floor:7.1f} MiB/s")
    for what in ("reading", "sealing"):
        seconds = found[what]
        speed, ratio = total / seconds, seconds / floor
        print(f"  {what}                       {seconds:7.1f} s  {speed:7.1f} MiB/s  {ratio:5.2f} x floor")
    grown = (found["peak"] - found["before"]) / 1024
    peak, threads = found["peak"] / 1024, found["threads"]
    print(f"  memory   {peak:.0f} MiB at its peak, {grown:.0f} MiB more than before; {threads} threads")


@contextlib.contextmanager
def storage_server() -> Iterator[dict[str, str]]:
    """The sandbox's storage server as a process; how it is asked."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        serve = (
            "import sys, uvicorn; from pathlib import Path; from encamp_sandbox.storage.api import StorageServer; "
            "server = StorageServer(Path(sys.argv[1]), sys.argv[3]); "
            "uvicorn.run(server, port=int(sys.argv[2]), log_level='error', lifespan='off')"
        )
        process = subprocess.Popen([sys.executable, "-c", serve, folder, str(port), TOKEN])
        try:
            yield _ready(f"http://127.0.0.1:{port}/storage/v1/")
        finally:
            process.terminate()
            process.wait()


def _ready(url: str) -> dict[str, str]:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            requests.post(f"{url}b", params={"project": "p"}, json={"name": BUCKET}, headers=HEADERS, timeout=10)
        except requests.ConnectionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return {"CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": url}


def main(large: int = 2 * 1024 * MIB, replicas: int = 1000) -> None:
    """Both cases on one storage server."""
    with storage_server() as environ:
        measure("one large log", 1, large, environ)
        measure("many replicas", replicas, 64 * 1024, environ)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
