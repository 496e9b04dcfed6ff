"""``encamp results`` as a user calls it, over a cloud of loopback fakes."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import EngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from click.testing import Result

BUCKET = "sandbox-encamp-artifacts"
MODEL = bytes(range(256)) * 20_000


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory inside a folder of the test's own."""
    working = tmp_path / "above" / "working"
    working.mkdir(parents=True)
    monkeypatch.chdir(working)
    return working


@pytest.fixture
def left(google: Any) -> Callable[..., str]:
    """Put objects where a job that another machine ran to its end left them."""

    def put(objects: Mapping[str, bytes], job_dir: str | None = f"gs://{BUCKET}/jobs/digits_1/output") -> str:
        receipt: dict[str, Any] = {
            "version": 2,
            "jobId": "digits_1",
            "name": "digits-1-abc",
            "outcome": {"state": "SUCCEEDED", "message": ""},
            "times": {"QUEUED": "2026-05-02T10:00:00.000+00:00", "SUCCEEDED": "2026-05-02T10:02:30.000+00:00"},
            "environment": "sandbox",
            "results": {"jobDir": job_dir, "kept": f"gs://{BUCKET}/jobs/digits_1/", "bucket": None, "until": None},
            "left": [],
        }
        google.objects[BUCKET, "jobs/digits_1/receipt.json"] = json.dumps(receipt).encode()
        for name, content in objects.items():
            google.objects[BUCKET, f"jobs/digits_1/{name}"] = content
        return "digits_1"

    return put


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def downloads(google: Any) -> list[Any]:
    return [one for one in google.requests if one.first("alt") == "media" and "/output/" in one.path]


def test_what_a_job_left_is_copied_once(
    encamp: Callable[..., Result], left: Callable[..., str], google: Any, here: Path
) -> None:
    job = left({"output/model/weights": MODEL, "output/1/empty": b"", "output/model/": b"", "logs/a.log": b"one"})
    run = encamp("results", job)
    assert run.exit_code == 0, run.output
    assert run.stdout == "4 files copied to digits_1, 4.9 MiB\n"
    assert files(here) == [
        f"digits_1/{one}" for one in ("logs/a.log", "output/1/empty", "output/model/weights", "receipt.json")
    ]
    assert (here / "digits_1/output/model/weights").read_bytes() == MODEL
    google.objects[BUCKET, "jobs/digits_1/logs/a.log"] = b"two"
    before = len(downloads(google))
    assert encamp("results", job).stdout == "1 files copied to digits_1, 0.0 MiB; 3 were there already\n"
    assert (here / "digits_1/logs/a.log").read_bytes() == b"two"
    assert len(downloads(google)) == before


def test_a_job_dir_elsewhere_comes_below_output(
    encamp: Callable[..., Result], left: Callable[..., str], google: Any, here: Path
) -> None:
    google.add_bucket("team")
    google.objects["team", "runs/digits_1/model"] = b"m"
    google.objects["team", "runs/digits_10/model"] = b"another job's"
    assert encamp("results", left({}, "gs://team/runs/digits_1"), "mine").exit_code == 0
    assert files(here / "mine") == ["output/model", "receipt.json"]


@pytest.mark.parametrize(
    ("kept", "requested"), [(MODEL[:100_000], "bytes=100000-"), (b"x" * 100_000, None), (MODEL + b"more", None)]
)
def test_an_interrupted_copy_goes_on_and_a_damaged_one_begins_anew(
    encamp: Callable[..., Result],
    left: Callable[..., str],
    google: Any,
    here: Path,
    *,
    kept: bytes,
    requested: str | None,
) -> None:
    job = left({"output/model": MODEL})
    google.break_off("GET .*/output/model.*media", *[MODEL[:1000]] * 6)
    assert isinstance(encamp("results", job, "mine").exception, EngineError)
    (partial,) = (here / "mine" / ".encamp-partial").iterdir()
    assert files(here / "mine") == [f".encamp-partial/{partial.name}"]
    partial.write_bytes(kept)
    google.troubles.clear()
    google.requests.clear()
    assert encamp("results", job, "mine").exit_code == 0
    assert downloads(google)[-1].headers.get("Range") == requested
    assert (here / "mine/output/model").read_bytes() == MODEL
    assert files(here / "mine") == ["output/model", "receipt.json"]


def test_bytes_that_are_not_the_objects_are_never_put_in_place(
    encamp: Callable[..., Result], left: Callable[..., str], google: Any, here: Path
) -> None:
    google.say("GET .*/output/model.*media", 200, MODEL[::-1])
    error = encamp("results", left({"output/model": MODEL}), "mine").exception
    assert isinstance(error, EngineError)
    assert "differ from its checksum" in str(error)
    assert "output/model" not in files(here / "mine")


HOSTILE = ("../../x", "/etc/x", "a//b", ".", "..", "a/../../../x", "a\\b", "a\x1b]0;x\x07", "a\nb", "a\x00b", "n" * 256)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_folder(
    encamp: Callable[..., Result], left: Callable[..., str], here: Path, name: str
) -> None:
    run = encamp("results", left({f"output/{name}": b"evil", "output/good": b"good"}), "mine")
    assert isinstance(run.exception, EngineError)
    assert f"left out: gs://{BUCKET}/jobs/digits_1/output/" in run.stderr
    assert run.stderr.replace("\n", "").isprintable()
    assert files(here.parent.parent / "above") == ["working/mine/output/good", "working/mine/receipt.json"]


def test_the_folder_of_unfinished_copies_is_no_jobs(
    encamp: Callable[..., Result], left: Callable[..., str], here: Path
) -> None:
    run = encamp("results", left({".encamp-partial/x": b"evil", "output/good": b"good"}), "mine")
    assert "is the folder of unfinished copies" in run.stderr
    assert files(here / "mine") == ["output/good", "receipt.json"]


def test_links_in_the_folder_are_not_followed(
    encamp: Callable[..., Result], left: Callable[..., str], here: Path
) -> None:
    outside = here.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (here / "mine" / "output").mkdir(parents=True)
    (here / "mine" / "output" / "folder").symlink_to(outside)
    (here / "mine" / "output" / "file").symlink_to(outside / "file")
    run = encamp("results", left({"output/folder/x": b"evil", "output/file": b"new"}), "mine")
    assert "something else is in its place" in run.stderr
    assert (files(outside), (outside / "file").read_text()) == (["file"], "kept")
    assert (here / "mine" / "output" / "file").read_bytes() == b"new"
    assert not (here / "mine" / "output" / "file").is_symlink()


def test_an_object_that_is_also_a_folder_is_left_out(
    encamp: Callable[..., Result], left: Callable[..., str], here: Path
) -> None:
    run = encamp("results", left({"output/a": b"file", "output/a/b": b"inside"}), "mine")
    assert "output/a: other objects have its name as their folder" in run.stderr
    assert files(here / "mine") == ["output/a/b", "receipt.json"]


def test_a_job_without_output_says_why(
    encamp: Callable[..., Result], left: Callable[..., str], google: Any, here: Path
) -> None:
    error = encamp("results", left({"logs/a.log": b"one"}, None)).exception
    assert isinstance(error, UsageError)
    assert "it has no job dir" in error.what
    assert "--keep-output" in (error.hint or "")
    error = encamp("results", left({})).exception
    assert isinstance(error, UsageError)
    assert f"nothing lies in its job dir gs://{BUCKET}/jobs/digits_1/output" in error.what
    assert files(here) == []
    assert downloads(google) == []


def test_two_commands_do_not_write_to_one_folder(
    encamp: Callable[..., Result], left: Callable[..., str], here: Path
) -> None:
    (here / "mine").mkdir()
    held = os.open(here / "mine", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        error = encamp("results", left({"output/good": b"good"}), "mine").exception
    finally:
        os.close(held)
    assert isinstance(error, UsageError)
    assert "another command copies to it" in error.what
    (here / "file").touch()
    assert isinstance(encamp("results", left({"output/good": b"good"}), "file").exception, UsageError)
