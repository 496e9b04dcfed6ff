"""The lying front before a stand-in for the API server, which compresses as the real one does."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp_sandbox.layout import Layout
from encamp_sandbox.lies.front import LyingFront
from encamp_sandbox.lies.switches import Switches
from encamp_sandbox.pki import issue_certificates

if TYPE_CHECKING:
    from pathlib import Path

NODES: dict[str, Any] = {
    "kind": "NodeList",
    "items": [{"metadata": {"name": "n", "labels": {}}, "spec": {}, "status": {}}],
}


def api_server(request: httpx.Request) -> httpx.Response:
    body = json.dumps(NODES).encode()
    if "gzip" in request.headers.get("accept-encoding", ""):
        return httpx.Response(200, content=gzip.compress(body), headers={"content-encoding": "gzip"})
    return httpx.Response(200, content=body)


@pytest.mark.parametrize("lies", [(), ("node-provider-id",)], ids=["true", "lying"])
def test_answers_that_the_api_server_would_compress_are_read(tmp_path: Path, lies: tuple[str, ...]) -> None:
    layout = Layout.create(tmp_path)
    issue_certificates(layout)
    switches = Switches(tmp_path / "lies.json", layout.token)
    switches.set(lies)

    async def asked() -> httpx.Response:
        front = LyingFront(lambda *_: pytest.fail("this is no request to Google"), switches, layout)
        front._api = httpx.AsyncClient(transport=httpx.MockTransport(api_server), base_url="https://api")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="https://127.0.0.1") as client:
            return await client.get("/api/v1/nodes", headers={"accept-encoding": "gzip"})

    found = asyncio.run(asked()).json()["items"][0]["spec"].get("providerID")
    assert found == ("aws://x" if lies else None)
