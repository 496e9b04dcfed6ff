"""The kubelet's client of the sandbox's Google Cloud: node pools, their size, and tokens for pods."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import httpx

from encamp.errors import EncampError
from encamp_sandbox.kubelet import pools

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOG = logging.getLogger(__name__)


class Front:
    """A client of the REST front, with the administrator's token."""

    def __init__(self, url: str, token: str, project: str) -> None:
        self.project = project
        self._client = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10.0, trust_env=False
        )

    async def node_pools(self) -> list[pools.Pool]:
        """Return every node pool of the project.

        One of a machine that we do not know is left out. Raises httpx.HTTPError.
        """
        answer = await self._client.get(f"/container/v1/projects/{self.project}/locations/-/clusters")
        answer.raise_for_status()
        found = []
        for cluster in answer.json().get("clusters") or []:
            parent = f"projects/{self.project}/locations/{cluster['location']}/clusters/{cluster['name']}"
            for pool in cluster.get("nodePools") or []:
                if pool.get("status", "RUNNING") == "STOPPING":
                    continue
                try:
                    found.append(pools.read(cluster, pool, parent))
                except EncampError as error:
                    _LOG.warning("node pool %s is left out: %s", pool["name"], error)
        return found

    async def set_size(self, pool: str, count: int) -> None:
        """Set the number of a pool's nodes; a pool that is gone needs none. Raises httpx.HTTPError."""
        answer = await self._client.put(f"/encamp/v1/nodePools/{pool}/size", json={"currentNodeCount": count})
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    async def access_token(self, account: str, scopes: Sequence[str]) -> dict[str, Any]:
        """Return a token of a Google service account: ``{accessToken, expireTime}``. Raises httpx.HTTPError."""
        answer = await self._client.post(
            f"/iamcredentials/v1/projects/-/serviceAccounts/{account}:generateAccessToken",
            json={"scope": list(scopes), "lifetime": "3600s"},
        )
        answer.raise_for_status()
        return answer.json()

    async def workload_token(self, namespace: str, account: str) -> dict[str, Any]:
        """Return a token of a Kubernetes service account itself: ``{accessToken, expireTime}``.

        Raises httpx.HTTPError.
        """
        answer = await self._client.post(
            "/encamp/v1/workloadTokens", json={"namespace": namespace, "serviceAccount": account}
        )
        answer.raise_for_status()
        return answer.json()

    async def write_logs(self, entries: Sequence[dict[str, Any]]) -> None:
        """Write log entries to Cloud Logging. Raises httpx.HTTPError."""
        answer = await self._client.post("/logging/v2/entries:write", json={"entries": list(entries)})
        answer.raise_for_status()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
