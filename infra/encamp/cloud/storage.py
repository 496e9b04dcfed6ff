"""Cloud Storage by its JSON API: whole objects in, whole objects out, whatever their size, in bounded memory.

Uploads are resumable above one chunk, and every upload is compared with what the service says that it has stored.
"""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from encamp.cloud.endpoints import Service
from encamp.cloud.rest import GoogleClient, RestError, parsed
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests

#: Bytes of one piece of a resumable upload; the API wants a multiple of 256 KiB.
CHUNK_BYTES = 8 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_NOT_FOUND = 404
_CONFLICT = 409
_MORE = 308
#: Number of times that an object's download may break off; it is resumed where it stopped.
_BREAKS = 6
#: Number of times in a row that a piece may be sent without any of it arriving.
_RESUMES = 5


class Readable(Protocol):
    """A source of an upload."""

    def read(self, count: int, /) -> bytes:
        """Return at most ``count`` bytes, none at the end."""
        ...


@dataclass(frozen=True)
class StoredObject:
    """An object as the service lists it; ``size`` in bytes, checksums in base64, all empty if it says none.

    ``encoding`` is its Content-Encoding: the service and clients decode such bytes on their way, so that they are not
    those of the checksums.
    """

    bucket: str
    name: str
    size: int
    generation: str
    updated: str
    crc32c: str = ""
    md5: str = ""
    encoding: str = ""

    @property
    def uri(self) -> str:
        """The ``gs://`` name."""
        return f"gs://{self.bucket}/{self.name}"


class Storage:
    """Objects and buckets."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client

    def upload(
        self, bucket: str, name: str, content: bytes | Readable, content_type: str = "application/octet-stream"
    ) -> StoredObject:
        """Store an object, over what may be there under the name.

        ``content`` is the bytes, or a file that is read from where it stands to its end.

        Raises:
            RestError: the service refused, or what it has stored differs from what was sent.
        """
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        digest = hashlib.md5(usedforsecurity=False)
        first = _read(stream, CHUNK_BYTES)
        digest.update(first)
        if len(first) < CHUNK_BYTES:
            found = self._media(bucket, name, first, content_type)
        else:
            found = self._resumable(bucket, name, first=first, stream=stream, content_type=content_type, digest=digest)
        expected = base64.b64encode(digest.digest()).decode()
        if found.get("md5Hash", expected) != expected:
            raise RestError("the stored object differs from what was sent", status=0, where=f"gs://{bucket}/{name}")
        return _stored(found)

    def download(
        self, bucket: str, name: str, *, begin: int = 0, end: int | None = None, generation: str = ""
    ) -> Iterator[bytes]:
        """Yield an object's bytes from ``begin`` on, piece by piece; ``end``: none that lies there or behind it.

        ``generation`` is the one that is wanted, empty for the live one.

        Raises:
            RestError: status 404 where there is no such object, 416 where it has not so many bytes.
        """
        from requests import exceptions  # noqa: PLC0415 - slow to import, and only here

        reached, params, why = begin, {"alt": "media", **({"generation": generation} if generation else {})}, ""
        for _ in range(_BREAKS):
            last = "" if end is None else end - 1
            headers = {"Range": f"bytes={reached}-{last}"} if reached or end is not None else None
            answer = self._client.request(
                Service.STORAGE, "GET", _object(bucket, name), params=params, headers=headers, stream=True
            )
            if begun := answer.headers.get("x-goog-generation"):
                # The rest must be of the same generation as the beginning.
                params["generation"] = begun
            try:
                with answer:
                    for piece in answer.iter_content(_READ_BYTES):
                        reached += len(piece)
                        yield piece
            except (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
                why = type(error).__name__
                if end is not None and reached >= end:
                    return
            else:
                return
        raise RestError(
            f"the download broke off {_BREAKS} times, at last after {reached} bytes: {why}",
            status=0,
            where=f"gs://{bucket}/{name}",
            hint="check the network, then run the command again",
        )

    def read(self, bucket: str, name: str) -> bytes | None:
        """Return a small object's bytes, or None."""
        try:
            return b"".join(self.download(bucket, name))
        except RestError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def objects(self, bucket: str, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every object whose name begins with ``prefix``, in the order of names."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        for item in self._client.pages(Service.STORAGE, path, "items", {"prefix": prefix}):
            yield _stored({"bucket": bucket, **item})

    def is_empty(self, bucket: str) -> bool:
        """Whether a bucket holds nothing, old versions of objects included; one that is not there holds nothing."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        try:
            return next(self._client.pages(Service.STORAGE, path, "items", {"versions": "true"}), None) is None
        except RestError as error:
            if error.status == _NOT_FOUND:
                return True
            raise

    def folders(self, bucket: str, prefix: str) -> Iterator[str]:
        """Return the folders directly below ``prefix`` (``jobs/a/`` below ``jobs/``), in their order."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        params = {"prefix": prefix, "delimiter": "/"}
        # An entry is a text here, not an object as in other listings.
        return map(str, self._client.pages(Service.STORAGE, path, "prefixes", params))

    def empty(self, bucket: str, prefix: str = "") -> int:
        """Delete every object whose name begins with ``prefix``, noncurrent versions included; return their number."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        query = {"prefix": prefix, "versions": "true"}
        found = [
            (str(item["name"]), str(item["generation"]))
            for item in self._client.pages(Service.STORAGE, path, "items", query)
        ]
        for name, generation in found:
            self._client.request(
                Service.STORAGE,
                "DELETE",
                _object(bucket, name),
                params={"generation": generation},
                accept=frozenset({_NOT_FOUND}),
            )
        return len(found)

    def delete(self, bucket: str, name: str) -> None:
        """Delete an object; none being there is success."""
        self._client.request(Service.STORAGE, "DELETE", _object(bucket, name), accept=frozenset({_NOT_FOUND}))

    def bucket(self, bucket: str) -> dict[str, Any] | None:
        """Return the bucket's resource, or None."""
        try:
            return self._client.json(Service.STORAGE, "GET", f"/storage/v1/b/{quote(bucket, safe='')}")
        except RestError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def buckets(self, project: str) -> Iterator[dict[str, Any]]:
        """Return every bucket of a project."""
        return self._client.pages(Service.STORAGE, "/storage/v1/b", "items", {"project": project})

    def permissions(self, bucket: str, wanted: tuple[str, ...]) -> frozenset[str]:
        """Return those of the wanted permissions (``storage.objects.create``...) that the caller has on a bucket."""
        # The API takes the parameter once for each permission; requests would want a list for that.
        query = "&".join(f"permissions={quote(one)}" for one in wanted)
        path = f"/storage/v1/b/{quote(bucket, safe='')}/iam/testPermissions?{query}"
        return frozenset(self._client.json(Service.STORAGE, "GET", path).get("permissions", []))

    def create_bucket(self, project: str, bucket: str, location: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Make a bucket that IAM alone gives access to."""
        body = {
            "name": bucket,
            "location": location,
            "labels": dict(labels),
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
        }
        return self._client.json(Service.STORAGE, "POST", "/storage/v1/b", params={"project": project}, json=body)

    def delete_bucket(self, bucket: str) -> None:
        """Delete a bucket and everything in it, all versions among it; none being there is success."""
        if self.bucket(bucket) is None:
            return
        self.empty(bucket)
        path = f"/storage/v1/b/{quote(bucket, safe='')}"
        self._client.request(Service.STORAGE, "DELETE", path, accept=frozenset({_NOT_FOUND}))

    def delete_empty_bucket(self, bucket: str) -> bool:
        """Delete a bucket with nothing in it; whether it is gone. One that holds anything is left alone."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}"
        answer = self._client.request(Service.STORAGE, "DELETE", path, accept=frozenset({_NOT_FOUND, _CONFLICT}))
        return answer.status_code != _CONFLICT

    def stat(self, bucket: str, name: str) -> dict[str, Any] | None:
        """Return an object's resource, or None."""
        try:
            return self._client.json(Service.STORAGE, "GET", _object(bucket, name))
        except RestError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def policy(self, bucket: str) -> dict[str, Any]:
        """Return the bucket's IAM policy, conditions included."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/iam"
        return self._client.json(Service.STORAGE, "GET", path, params={"optionsRequestedPolicyVersion": "3"})

    def set_policy(self, bucket: str, policy: dict[str, Any]) -> None:
        """Replace the bucket's IAM policy; refused with 412 where its etag is out of date."""
        self._client.json(Service.STORAGE, "PUT", f"/storage/v1/b/{quote(bucket, safe='')}/iam", json=policy)

    def _media(self, bucket: str, name: str, content: bytes, content_type: str) -> dict[str, Any]:
        path = f"/upload/storage/v1/b/{quote(bucket, safe='')}/o"
        params = {"uploadType": "media", "name": name}
        headers = {"Content-Type": content_type}
        return self._client.json(Service.STORAGE, "POST", path, params=params, data=content, headers=headers)

    def _resumable(
        self, bucket: str, name: str, *, first: bytes, stream: Readable, content_type: str, digest: Any
    ) -> dict[str, Any]:
        session = self._begin(bucket, name, content_type)
        chunk, offset = first, 0
        while True:
            following = _read(stream, CHUNK_BYTES) if len(chunk) == CHUNK_BYTES else b""
            digest.update(following)
            last = not following
            found = self._piece(session, chunk, offset, last=last)
            if last:
                return found
            chunk, offset = following, offset + len(chunk)

    def _begin(self, bucket: str, name: str, content_type: str) -> str:
        answer = self._client.request(
            Service.STORAGE,
            "POST",
            f"/upload/storage/v1/b/{quote(bucket, safe='')}/o",
            params={"uploadType": "resumable", "name": name},
            json={"contentType": content_type},
            headers={"X-Upload-Content-Type": content_type},
        )
        # The session is at the service that began it, whatever host name that service believes to have.
        parts = urlsplit(answer.headers["Location"])
        return f"{parts.path}?{parts.query}"

    def _piece(self, session: str, chunk: bytes, offset: int, *, last: bool) -> dict[str, Any]:
        """Send one piece, going on where the service says that it stopped."""
        total = str(offset + len(chunk)) if last else "*"
        sent = idle = 0
        while idle < _RESUMES:
            rest = chunk[sent:] if sent else chunk
            answer = self._put(session, rest, offset + sent, total)
            if answer.status_code != _MORE:
                return parsed(answer, session.partition("?")[0])
            held = answer.headers.get("Range", "")
            reached = max(sent, int(held.rpartition("-")[2]) + 1 - offset) if held else sent
            if reached >= len(chunk) and not last:
                return {}
            idle = 0 if reached > sent else idle + 1
            sent = reached
        raise EngineError("the upload does not advance", where=session.partition("?")[0], hint="run the command again")

    def _put(self, session: str, content: bytes, begin: int, total: str) -> requests.Response:
        """Send bytes once; without a usable answer, ask what came of them."""
        span = f"{begin}-{begin + len(content) - 1}" if content else "*"
        headers = {"Content-Range": f"bytes {span}/{total}"}
        accept = frozenset({_MORE})
        try:
            return self._client.request(
                Service.STORAGE, "PUT", session, data=content, headers=headers, accept=accept, attempts=1
            )
        except RestError as error:
            if error.status:
                raise
        headers = {"Content-Range": f"bytes */{total}"}
        return self._client.request(Service.STORAGE, "PUT", session, data=b"", headers=headers, accept=accept)


def _object(bucket: str, name: str) -> str:
    return f"/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}"


def _stored(item: dict[str, Any]) -> StoredObject:
    return StoredObject(
        bucket=item["bucket"],
        name=item["name"],
        size=int(item.get("size", 0)),
        generation=str(item.get("generation", "")),
        updated=str(item.get("updated", "")),
        crc32c=str(item.get("crc32c", "")),
        md5=str(item.get("md5Hash", "")),
        encoding=str(item.get("contentEncoding", "")),
    )


def _read(stream: Readable, count: int) -> bytes:
    """Return ``count`` bytes, fewer only at the end of the stream (a pipe may give less at a time)."""
    pieces: list[bytes] = []
    while count and (piece := stream.read(count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
