"""Events on pods and nodes, written in the background and counted up where the same happens again."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.kubelet.times import now, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubelet.api import Api

_LOG = logging.getLogger(__name__)
_WAITING = 1000


class Events:
    """Writes events in the name of one component; what cannot be written is dropped, as kubelets do."""

    def __init__(self, api: Api, component: str) -> None:
        self._api = api
        self._component = component
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_WAITING)
        self._seen: dict[str, int] = {}

    def send(self, about: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Note that something happened to an object (it must have kind and metadata)."""
        metadata = about["metadata"]
        what = f"{metadata.get('uid')}{reason}{message}{self._component}"
        name = f"{metadata['name']}.{hashlib.sha256(what.encode()).hexdigest()[:16]}"
        count = self._seen[name] = self._seen.get(name, 0) + 1
        moment = stamp(now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata.get("namespace", "default")},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": about.get("kind") or "Pod",
                "name": metadata["name"],
                "namespace": metadata.get("namespace"),
                "uid": metadata.get("uid"),
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._component},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": count,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            _LOG.warning("too many events, dropped %s of %s", reason, metadata["name"])

    async def run(self) -> None:
        """Write what is sent, for ever."""
        while True:
            event = await self._queue.get()
            path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
            try:
                if event["count"] > 1:
                    change = {key: event[key] for key in ("count", "lastTimestamp")}
                    if await self._api.patch(f"{path}/{event['metadata']['name']}", change) is not None:
                        continue
                await self._api.create(path, event)
            except httpx.HTTPError as error:
                _LOG.info("event %s not written: %s", event["reason"], error)
