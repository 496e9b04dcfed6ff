"""States that the engine cannot read, in folders and in buckets."""

from __future__ import annotations

import gzip
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.run.engine.state_files import state_files

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.run.engine.state_files import StateFiles

WHOLE = json.dumps({"version": 3, "checkpoint": {"stack": "organization/encamp/x"}}).encode()
STATES = ".pulumi/stacks/encamp"


class _Backend(ABC):
    """What every kind of backend does alike."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def contents(self) -> dict[str, bytes]:
        """Everything in the backend, by name from its root."""

    @abstractmethod
    def files(self) -> StateFiles: ...


class _Folder(_Backend):
    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(content)

    def contents(self) -> dict[str, bytes]:
        return {str(one.relative_to(self.root)): one.read_bytes() for one in self.root.rglob("*") if one.is_file()}

    def files(self) -> StateFiles:
        def none() -> Storage:
            raise AssertionError

        found = state_files(f"file://{self.root}?no_tmp_dir=true", "encamp", none)
        assert found is not None
        return found


class _Bucket(_Backend):
    def __init__(self, google: Any, client: GoogleClient) -> None:
        google.add_bucket("states")
        self.google = google
        self.client = client

    def put(self, name: str, content: bytes) -> None:
        self.google.objects["states", f"team/a/{name}"] = content

    def contents(self) -> dict[str, bytes]:
        return {name.removeprefix("team/a/"): content for (_, name), content in self.google.objects.items()}

    def files(self) -> StateFiles:
        found = state_files("gs://states/team/a", "encamp", lambda: Storage(self.client))
        assert found is not None
        return found


@pytest.fixture(params=["folder", "bucket"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, google: Any, client: GoogleClient) -> _Backend:
    return _Folder(tmp_path) if request.param == "folder" else _Bucket(google, client)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"garbage", "it is no JSON: Expecting value"),
        (WHOLE[:30], "it is no JSON"),
        (b"\xff\xfe\x00", "it is no JSON"),
        (b"[]", "no state"),
        (b'{"version": 3}', "no state"),
    ],
)
def test_an_unreadable_state_is_named_and_kept_elsewhere(backend: _Backend, content: bytes, why: str) -> None:
    backend.put(f"{STATES}/job-a.json", content)
    backend.put(f"{STATES}/job-b.json", WHOLE)
    backend.put(f"{STATES}/job-b.json.bak", b"garbage of no matter")
    files = backend.files()
    assert files.stacks() == ["job-a", "job-b"]
    assert why in (files.trouble("job-a") or "")
    assert files.place("job-a").endswith(f"{STATES}/job-a.json")
    aside = files.set_aside("job-a")
    assert aside is not None
    assert ".pulumi/unreadable/encamp/job-a.json." in aside
    (kept,) = [name for name in backend.contents() if "unreadable" in name]
    assert aside.endswith(kept)
    assert backend.contents()[kept] == content
    assert files.stacks() == ["job-b"]
    assert files.set_aside("job-a") is None


def test_a_state_that_can_be_read_stays(backend: _Backend) -> None:
    backend.put(f"{STATES}/plain.json", WHOLE)
    backend.put(f"{STATES}/packed.json.gz", gzip.compress(WHOLE))
    backend.put(f"{STATES}/newer.json", json.dumps({"version": 99, "checkpoint": {}}).encode())
    before = backend.contents()
    files = backend.files()
    assert files.stacks() == ["newer", "packed", "plain"]
    assert [files.set_aside(name) for name in (*files.stacks(), "missing")] == [None] * 4
    assert backend.contents() == before


def test_a_packed_state_that_was_cut_off_is_unreadable(backend: _Backend) -> None:
    backend.put(f"{STATES}/packed.json.gz", gzip.compress(WHOLE * 100)[:40])
    assert "no JSON" in (backend.files().trouble("packed") or "")


def test_the_attributes_of_a_file_go_with_it(tmp_path: Path) -> None:
    folder = _Folder(tmp_path)
    folder.put(f"{STATES}/job-a.json", b"x")
    folder.put(f"{STATES}/job-a.json.attrs", b"{}")
    aside = folder.files().set_aside("job-a")
    assert aside is not None
    assert {f"{tmp_path}/{name}" for name in folder.contents()} == {aside, f"{aside}.attrs"}


@pytest.mark.parametrize("url", [None, "https://api.pulumi.com", "s3://states", "azblob://states"])
def test_of_other_backends_the_engine_alone_knows(url: str | None) -> None:
    assert state_files(url, "encamp", lambda: pytest.fail("no storage is asked")) is None
