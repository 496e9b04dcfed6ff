"""Clients that encamp configures reach nothing but loopback: what they mean for Google stays in the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from encamp_sandbox.environment import variables

pytestmark = pytest.mark.sandbox

INFRA = Path(__file__).resolve().parents[3] / "infra"

#: Notes every name that is looked up and every address that is connected to, and waits for google-auth's own threads.
RECORDER = """
import json, socket, sys, threading
seen = set()
def hook(event, args):
    if event == "socket.getaddrinfo":
        seen.add(str(args[0]))
    elif event == "socket.connect" and isinstance(args[1], tuple):
        seen.add(str(args[1][0]))
sys.addaudithook(hook)
def finish():
    workers = [one for one in threading.enumerate() if type(one).__name__ == "_RegionalAccessBoundaryRefreshThread"]
    for one in workers:
        one.join(20)
    print(json.dumps({"seen": sorted(seen), "workers": len(workers)}))
"""
CLIENTS = {
    "encamp": """
import os, google.auth, google.auth.transport.requests
credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
session = google.auth.transport.requests.AuthorizedSession(credentials)
front = os.environ["API_ENDPOINT_OVERRIDE"]
assert session.get(f"{front}/storage/v1/b?project={project}").status_code == 200
finish()
""",
    "google-cloud-storage": """
from google.cloud import storage
assert list(storage.Client().list_buckets()) is not None
finish()
""",
    "an address of Google's": """
import google.auth, google.auth.transport.requests
credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
session = google.auth.transport.requests.AuthorizedSession(credentials)
assert session.get(f"https://storage.googleapis.com/storage/v1/b?project={project}").status_code == 200
finish()
""",
}


def said(processes: Any, client: str, first: str = "", **changed: str) -> dict[str, Any]:
    environment = {**os.environ, **variables(processes.layout), "PYTHONPATH": str(INFRA), **changed}
    done = subprocess.run(
        [sys.executable, "-c", RECORDER + first + CLIENTS[client]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_nothing_but_loopback_is_tried(processes: Any, client: str) -> None:
    assert set(said(processes, client)["seen"]) <= {"127.0.0.1", "localhost", "::1"}


#: Names of Google's are noted and led nowhere: nothing of a test leaves this machine.
NOWHERE = """
known = socket.getaddrinfo
def nowhere(host, *rest, **more):
    if "google" in str(host):
        seen.add(str(host))
        raise OSError("nowhere")
    return known(host, *rest, **more)
socket.getaddrinfo = nowhere
"""


def test_without_the_proxy_google_auth_asks_google(processes: Any) -> None:
    """The hole that the proxy closes, and that the recorder would see it."""
    found = said(processes, "encamp", NOWHERE, https_proxy="", HTTPS_PROXY="")
    assert "iamcredentials.googleapis.com" in found["seen"]
