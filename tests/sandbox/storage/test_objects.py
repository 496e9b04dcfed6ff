"""The storage server by its HTTP API, in this process."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp_sandbox.storage.api import StorageServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from pathlib import Path

UPLOAD = "/upload/storage/v1/b/bkt/o"
OBJECTS = "/storage/v1/b/bkt/o"


@asynccontextmanager
async def served(root: Path) -> AsyncGenerator[httpx.AsyncClient]:
    server = StorageServer(root, "secret")
    transport = httpx.ASGITransport(app=server)
    headers = {"authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://storage", headers=headers) as client:
        await client.post("/storage/v1/b", json={"name": "bkt", "location": "us-central1", "labels": {"k": "v"}})
        yield client
    server.close()


async def put(client: httpx.AsyncClient, name: str, data: bytes = b"x", **query: str) -> httpx.Response:
    return await client.post(UPLOAD, params={"uploadType": "media", "name": name, **query}, content=data)


async def names(client: httpx.AsyncClient, **query: str) -> tuple[list[str], list[str], str]:
    body = (await client.get(OBJECTS, params=query)).json()
    return [item["name"] for item in body.get("items", [])], body.get("prefixes", []), body.get("nextPageToken", "")


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]], None]:
    def runner(test: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            async with served(tmp_path) as client:
                await test(client)

        asyncio.run(work())

    return runner


def test_a_bucket_keeps_its_labels_and_is_made_once(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        shown = (await client.get("/storage/v1/b/bkt")).json()
        assert (shown["labels"], shown["location"]) == ({"k": "v"}, "US-CENTRAL1")
        again = await client.post("/storage/v1/b", json={"name": "bkt"})
        assert (again.status_code, again.json()["error"]["errors"][0]["reason"]) == (409, "conflict")
        patched = await client.patch("/storage/v1/b/bkt", json={"labels": {"k": None, "n": "1"}})
        assert patched.json()["labels"] == {"n": "1"}
        await put(client, "x")
        assert (await client.delete("/storage/v1/b/bkt")).status_code == 409
        await client.delete(f"{OBJECTS}/x")
        assert (await client.delete("/storage/v1/b/bkt")).status_code == 204
        assert (await client.get("/storage/v1/b/bkt")).status_code == 404

    run(test)


@pytest.mark.parametrize("name", ["UPPER", "a", "has space", "-dash", "goog-x", "a..b", "x" * 64])
def test_bad_bucket_names_are_refused(run: Any, name: str) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.post("/storage/v1/b", json={"name": name})).status_code == 400

    run(test)


def test_names_are_only_names(run: Any, tmp_path: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        wanted = ["../../escaped", "a", "a/", "a/b", "dir//x", "é ?#%2F"]
        for name in wanted:
            assert (await put(client, name, name.encode())).status_code == 200
        assert (await names(client))[0] == sorted(wanted, key=lambda text: text.encode())
        for name in wanted:
            path = f"{OBJECTS}/{httpx.QueryParams({'n': name})!s}".replace("n=", "").replace("+", "%20")
            assert (await client.get(path, params={"alt": "media"})).content == name.encode()
        assert not (tmp_path.parent / "escaped").exists()

    run(test)


def test_listing_rolls_up_and_pages(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for name in ("a", "a/1", "a/2", "b/1", "b/c/1", "z"):
            await put(client, name)
        assert await names(client, delimiter="/") == (["a", "z"], ["a/", "b/"], "")
        assert await names(client, delimiter="/", prefix="b/") == (["b/1"], ["b/c/"], "")
        seen: list[str] = []
        token = ""
        while True:
            items, prefixes, token = await names(client, delimiter="/", maxResults="1", pageToken=token)
            seen += items + prefixes
            if not token:
                break
        assert seen == ["a", "a/", "b/", "z"]
        assert (await names(client, startOffset="a/2", endOffset="z"))[0] == ["a/2", "b/1", "b/c/1"]
        assert (await names(client, prefix="z", startOffset="", endOffset="", matchGlob=""))[0] == ["z"]
        assert (await names(client, matchGlob="*/1"))[0] == ["a/1", "b/1", "b/c/1"]

    run(test)


def test_preconditions_hold_for_every_verb(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        made = (await put(client, "x", ifGenerationMatch="0")).json()
        wrong = str(int(made["generation"]) + 1)
        assert (await put(client, "x", ifGenerationMatch="0")).status_code == 412
        assert (await client.delete(f"{OBJECTS}/x", params={"ifGenerationMatch": wrong})).status_code == 412
        refused = await client.patch(f"{OBJECTS}/x", params={"ifMetagenerationMatch": "7"}, json={})
        assert refused.status_code == 412
        same = {"ifGenerationNotMatch": made["generation"]}
        assert (await client.get(f"{OBJECTS}/x", params=same)).status_code == 304
        assert (await put(client, "x", ifGenerationMatch=made["generation"])).status_code == 200
        assert (await client.get(f"{OBJECTS}/x", params={"generation": made["generation"]})).status_code == 404

    run(test)


def test_ranges(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await put(client, "x", b"0123456789")
        url = "/download/storage/v1/b/bkt/o/x"
        for asked, got, shown in (
            ("bytes=2-4", b"234", "bytes 2-4/10"),
            ("bytes=7-", b"789", "bytes 7-9/10"),
            ("bytes=-2", b"89", "bytes 8-9/10"),
            ("bytes=5-99", b"56789", "bytes 5-9/10"),
        ):
            answer = await client.get(url, headers={"range": asked})
            assert (answer.status_code, answer.content, answer.headers["content-range"]) == (206, got, shown)
        assert (await client.get(url, headers={"range": "bytes=10-"})).status_code == 416
        whole = await client.get(url)
        md5 = base64.b64encode(hashlib.md5(b"0123456789", usedforsecurity=False).digest()).decode()
        assert f"md5={md5}" in whole.headers["x-goog-hash"]

    run(test)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_multipart_of_gcloud_and_of_the_python_client(run: Any, end: str) -> None:
    payload = b"\r\nbinary\n--not the mark--\r\n" + bytes(range(256))
    head = f'--=42=={end}Content-Type: application/json{end}{end}{{"name": "m", "metadata": {{"k": "v"}}}}{end}'
    part = f"--=42=={end}Content-Type: application/x-tar{end}{end}"
    body = (head + part).encode() + payload + f"{end}--=42==--".encode()

    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.post(
            UPLOAD,
            params={"uploadType": "multipart"},
            headers={"content-type": "multipart/related; boundary='=42=='"},
            content=body,
        )
        shown = answer.json()
        assert (shown["name"], shown["contentType"], shown["size"]) == ("m", "application/x-tar", str(len(payload)))
        assert shown["metadata"] == {"k": "v"}
        assert (await client.get(f"{OBJECTS}/m", params={"alt": "media"})).content == payload

    run(test)


def test_a_declared_checksum_is_checked(run: Any) -> None:
    body = (
        b'--B\r\nContent-Type: application/json\r\n\r\n{"name":"m","crc32c":"AAAAAA=="}\r\n'
        b"--B\r\nContent-Type: text/plain\r\n\r\nhello\r\n--B--\r\n"
    )

    async def test(client: httpx.AsyncClient) -> None:
        headers = {"content-type": "multipart/related; boundary=B"}
        answer = await client.post(UPLOAD, params={"uploadType": "multipart"}, headers=headers, content=body)
        assert answer.status_code == 400
        assert (await names(client))[0] == []

    run(test)


def test_a_resumable_upload_goes_on_after_a_restart(tmp_path: Path) -> None:
    data = os.urandom(700_000)

    async def begin() -> str:
        async with served(tmp_path) as client:
            opened = await client.post(
                UPLOAD, params={"uploadType": "resumable", "name": "big"}, json={"metadata": {"a": "b"}}
            )
            location = opened.headers["location"]
            part = await client.put(location, content=data[:400_000], headers={"content-range": "bytes 0-399999/*"})
            assert (part.status_code, part.headers["range"]) == (308, "bytes=0-399999")
            return location

    async def finish(location: str) -> None:
        async with served(tmp_path) as client:
            asked = await client.put(location, headers={"content-range": "bytes */*"})
            assert (asked.status_code, asked.headers["range"]) == (308, "bytes=0-399999")
            # Some bytes come twice, as after an answer that was lost.
            rest = {"content-range": "bytes 300000-699999/700000"}
            done = await client.put(location, content=data[300_000:], headers=rest)
            assert (done.status_code, done.json()["metadata"]) == (200, {"a": "b"})
            assert (await client.put(location, headers={"content-range": "bytes */700000"})).json() == done.json()
            assert (await client.get(f"{OBJECTS}/big", params={"alt": "media"})).content == data

    asyncio.run(finish(asyncio.run(begin())))


def test_a_resumable_upload_of_other_bytes_than_promised_is_refused(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        promised = base64.b64encode(hashlib.md5(b"", usedforsecurity=False).digest()).decode()
        opened = await client.post(UPLOAD, params={"uploadType": "resumable", "name": "x"}, json={"md5Hash": promised})
        location = opened.headers["location"]
        sent = await client.put(location, content=b"bytes")
        assert (sent.status_code, "md5Hash" in sent.json()["error"]["message"]) == (400, True)
        assert (await names(client))[0] == []
        assert (await client.put(location, content=b"")).status_code == 404

    run(test)


def test_a_client_that_takes_308_for_a_redirection_gets_another_answer(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        location = (await client.post(UPLOAD, params={"uploadType": "resumable", "name": "x"})).headers["location"]
        headers = {"content-range": "bytes 0-3/*", "x-guploader-no-308": "yes"}
        part = await client.post(location, headers=headers, content=b"half")
        assert (part.status_code, part.headers["x-http-status-code-override"]) == (200, "308")
        assert part.headers["range"] == "bytes=0-3"
        done = await client.post(location, headers=headers | {"content-range": "bytes 4-7/8"}, content=b"rest")
        assert "x-http-status-code-override" not in done.headers
        assert done.json()["size"] == "8"

    run(test)


def test_the_precondition_of_a_session_is_checked_at_its_end(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        query = {"uploadType": "resumable", "name": "x", "ifGenerationMatch": "0"}
        location = (await client.post(UPLOAD, params=query)).headers["location"]
        await put(client, "x", b"first")
        assert (await client.put(location, content=b"second")).status_code == 412
        assert (await client.get(f"{OBJECTS}/x", params={"alt": "media"})).content == b"first"

    run(test)


def test_copies_and_concatenations(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await put(client, "a/b", b"one")
        await put(client, "c", b"two")
        copied = (await client.post(f"{OBJECTS}/a%2Fb/rewriteTo/b/bkt/o/copy%2Fd")).json()
        assert (copied["done"], copied["resource"]["name"]) == (True, "copy/d")
        body = {"sourceObjects": [{"name": "a/b"}, {"name": "c"}], "destination": {"contentType": "text/plain"}}
        joined = (await client.post(f"{OBJECTS}/sum/compose", json=body)).json()
        assert "md5Hash" not in joined
        await client.delete(f"{OBJECTS}/a%2Fb")
        assert (await client.get(f"{OBJECTS}/copy%2Fd", params={"alt": "media"})).content == b"one"
        assert (await client.get(f"{OBJECTS}/sum", params={"alt": "media"})).content == b"onetwo"

    run(test)


def test_an_object_gets_another_name(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        made = (await put(client, "a/b", b"one", contentEncoding="br")).json()
        await put(client, "taken", b"two")
        place = f"{OBJECTS}/a%2Fb/moveTo/o/c%2Fd"
        assert (await client.post(place, params={"ifSourceGenerationMatch": "1"})).status_code == 412
        moved = (await client.post(place, params={"ifSourceGenerationMatch": made["generation"]})).json()
        assert (moved["name"], moved["md5Hash"], moved["contentEncoding"]) == ("c/d", made["md5Hash"], "br")
        assert int(moved["generation"]) > int(made["generation"])
        assert (await names(client))[0] == ["c/d", "taken"]
        over = f"{OBJECTS}/c%2Fd/moveTo/o/taken"
        assert (await client.post(over, params={"ifGenerationMatch": "0"})).status_code == 412
        assert (await client.post(over, headers={"x-encamp-no-overwrite": "1"})).status_code == 403
        assert (await client.post(over)).status_code == 200
        assert (await client.get(f"{OBJECTS}/taken", params={"alt": "media"})).content == b"one"
        assert (await client.post(f"{OBJECTS}/taken/moveTo/o/taken")).status_code == 400
        assert (await client.post(over)).status_code == 404
        assert (await client.delete(f"{OBJECTS}/taken", params={"generation": "0"})).status_code == 204

    run(test)


def test_versions_stay_in_a_versioned_bucket(run: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await client.patch("/storage/v1/b/bkt", json={"versioning": {"enabled": True}})
        first = (await put(client, "x", b"1")).json()["generation"]
        await put(client, "x", b"2")
        await client.delete(f"{OBJECTS}/x")
        assert (await names(client))[0] == []
        assert (await names(client, versions="true"))[0] == ["x", "x"]
        old = await client.get(f"{OBJECTS}/x", params={"alt": "media", "generation": first})
        assert old.content == b"1"

    run(test)


def test_bytes_that_nobody_names_are_swept(tmp_path: Path) -> None:
    async def fill() -> None:
        async with served(tmp_path) as client:
            await put(client, "x", b"1")
            await put(client, "x", b"2")

    asyncio.run(fill())
    (tmp_path / "blobs" / "00").mkdir(exist_ok=True)
    (tmp_path / "blobs" / "00" / "0011").write_bytes(b"left by a kill")
    (tmp_path / "incoming" / "half").write_bytes(b"left by a kill")
    server = StorageServer(tmp_path, "secret")
    server.close()
    assert len(list((tmp_path / "blobs").glob("*/*"))) == 1
    assert not list((tmp_path / "incoming").iterdir())


def test_nothing_without_the_token(tmp_path: Path) -> None:
    async def test() -> None:
        async with served(tmp_path) as client:
            assert (await client.get("/healthz", headers={"authorization": ""})).status_code == 200
            assert (await client.get(OBJECTS, headers={"authorization": "Bearer wrong"})).status_code == 401

    asyncio.run(test())
