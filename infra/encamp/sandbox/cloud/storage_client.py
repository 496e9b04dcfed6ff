"""The provider's own way to the storage server: buckets and objects, as calls that wait for no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from encamp.sandbox.cloud.cloud import storage_url
from encamp.sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from encamp.sandbox.layout import Layout

_MISSING = 404


class StorageClient:
    """A client of one storage server.

    Args:
        url: where it is.
        token: what it wants to see.
        transport: how to get there, if not over the network.
    """

    def __init__(self, url: str, token: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"}
        timeout = httpx.Timeout(60.0, connect=5.0)
        self._client = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout, trust_env=False, transport=transport
        )

    @classmethod
    def of(cls, layout: Layout) -> StorageClient:
        """The client of a sandbox's storage server."""
        return cls(storage_url(layout), layout.token)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            answer = await self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise GoogleError(503, f"The storage server does not answer ({type(error).__name__}).") from error
        if answer.is_error:
            problem = answer.json()["error"]
            raise GoogleError(answer.status_code, problem["message"], reason=problem["errors"][0]["reason"])
        return answer.json() if answer.content else {}

    async def create_bucket(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a bucket."""
        return await self._call("POST", "/storage/v1/b", json=dict(body))

    async def bucket(self, name: str) -> dict[str, Any] | None:
        """A bucket, or None."""
        return await self._found(f"/storage/v1/b/{_quoted(name)}")

    async def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._call("GET", path)
        except GoogleError as error:
            if error.code == _MISSING:
                return None
            raise

    async def update_bucket(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace all that a bucket's owner sets."""
        return await self._call("PUT", f"/storage/v1/b/{_quoted(name)}", json=dict(body))

    async def delete_bucket(self, name: str) -> None:
        """Delete an empty bucket."""
        await self._call("DELETE", f"/storage/v1/b/{_quoted(name)}")

    async def empty_bucket(self, name: str) -> int:
        """Delete everything in a bucket, old generations too; how many there were."""
        count = 0
        async for item in self.objects(name, versions="true"):
            path = f"/storage/v1/b/{_quoted(name)}/o/{_quoted(item['name'])}"
            await self._call("DELETE", path, params={"generation": item["generation"]})
            count += 1
        return count

    async def objects(self, bucket: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        """Every object of a bucket."""
        token = ""
        while True:
            page = await self._call(
                "GET", f"/storage/v1/b/{_quoted(bucket)}/o", params={**query, **({"pageToken": token} if token else {})}
            )
            for item in page.get("items", ()):
                yield item
            token = page.get("nextPageToken", "")
            if not token:
                return

    async def upload(self, bucket: str, metadata: Mapping[str, Any], content: AsyncIterator[bytes]) -> dict[str, Any]:
        """Make an object of bytes; ``metadata`` holds its name."""
        name = str(metadata["name"])
        session = await self._open(bucket, name, metadata)
        try:
            answer = await self._client.put(session, content=content)
        except httpx.HTTPError as error:
            raise GoogleError(503, f"The storage server does not answer ({type(error).__name__}).") from error
        if answer.is_error:
            raise GoogleError(answer.status_code, answer.json()["error"]["message"])
        return answer.json()

    async def _open(self, bucket: str, name: str, metadata: Mapping[str, Any]) -> str:
        path = f"/upload/storage/v1/b/{_quoted(bucket)}/o"
        query = {"uploadType": "resumable", "name": name}
        try:
            answer = await self._client.post(path, params=query, json=dict(metadata))
        except httpx.HTTPError as error:
            raise GoogleError(503, f"The storage server does not answer ({type(error).__name__}).") from error
        if answer.is_error:
            raise GoogleError(answer.status_code, answer.json()["error"]["message"])
        return answer.headers["location"]

    async def object(self, bucket: str, name: str) -> dict[str, Any] | None:
        """An object's metadata, or None."""
        return await self._found(f"/storage/v1/b/{_quoted(bucket)}/o/{_quoted(name)}")

    async def update_object(self, bucket: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object's metadata."""
        return await self._call("PUT", f"/storage/v1/b/{_quoted(bucket)}/o/{_quoted(name)}", json=dict(body))

    async def delete_object(self, bucket: str, name: str) -> None:
        """Delete an object."""
        await self._call("DELETE", f"/storage/v1/b/{_quoted(bucket)}/o/{_quoted(name)}")


def _quoted(name: str) -> str:
    return quote(name, safe="")
