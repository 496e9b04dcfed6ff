"""A front in this process that a test asks, one request after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.cloud.front import BELIEF_HEADER
from encamp_sandbox.cloud.services.all import make_front

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.layout import Layout
    from encamp_sandbox.storage.api import StorageServer

PROJECT = "projects/sandbox-encamp"


@dataclass(frozen=True)
class Answer:
    """What the front answered.

    Attributes:
        belief: id of the belief that a refusal follows.
    """

    status: int
    body: dict[str, Any]
    belief: str

    @property
    def message(self) -> str:
        """What a refusal says."""
        return str(self.body["error"]["message"])

    @property
    def reason(self) -> str:
        """The older APIs' word for a refusal."""
        return str(self.body["error"]["errors"][0]["reason"])


class Desk:
    """Asks a front over a cloud, by default as the administrator."""

    def __init__(self, cloud: Cloud, layout: Layout, storage: StorageServer) -> None:
        self.cloud = cloud
        self.layout = layout
        self._storage = storage

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, str] | None = None,
        token: str | None = None,
        host: str = "x",
    ) -> Answer:
        """Send one request; the path begins with the service and its version."""
        front, _ = make_front(self.cloud, self.layout, httpx.ASGITransport(app=self._storage))
        headers = {"authorization": f"Bearer {token or self.layout.token}", "host": host}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=front)
            async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
                return await http.request(method, f"/{path}", json=body, params=query)

        response = asyncio.run(send())
        answer = response.json() if response.content else {}
        return Answer(response.status_code, answer, response.headers.get(BELIEF_HEADER, ""))

    def do(self, method: str, path: str, body: Any = None, *, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Send a request that has to succeed."""
        answer = self.ask(method, path, body, query=query)
        assert answer.status == 200, answer.body
        return answer.body

    def refused(self, method: str, path: str, body: Any = None, *, query: dict[str, str] | None = None) -> Answer:
        """Send a request that has to be refused."""
        answer = self.ask(method, path, body, query=query)
        assert "error" in answer.body, answer.body
        return answer
