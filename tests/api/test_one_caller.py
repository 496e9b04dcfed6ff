"""One caller cannot use the service up: bounds on what is sent, on what waits and on what is answered."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.test_strangers import probe, serving
from tests.api.test_wire import JOBS, Reply, ask, request
from tests.api.world import ADMIN, DEVELOPER, World, job, world

from encamp.api.jobs import LARGEST_PAGE_BYTES
from encamp.api.planning import LARGEST_JOB_BYTES
from encamp.api.queue_limits import QueueLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

Address = tuple[str, int]


@contextlib.contextmanager
def standing(folder: Path, **options: Any) -> Iterator[tuple[World, Address]]:
    with world(folder, **options) as found, serving(found) as address:
        yield found, address


def create(address: Address, job_id: str, args: list[str] | None = None, who: str = DEVELOPER) -> Reply:
    sent = job(job_id)
    if args is not None:
        sent["trainingInput"]["args"] = args
    return ask(address, request("POST", JOBS, sent, authorization=f"Bearer {who}"))


def test_arguments_and_jobs_have_a_bound(tmp_path: Path) -> None:
    with standing(tmp_path) as (found, address):
        long = create(address, "long", ["x" * 1000] * 66)
        assert (long.code, long.status) == (400, "INVALID_ARGUMENT")
        assert "training_input.args" in long.data["error"]["message"]
        sent = job("wide", labels={})
        sent["trainingInput"]["packageUris"] = [f"gs://my-bucket/{'x' * 800}{number}.tar.gz" for number in range(100)]
        sent["trainingInput"]["args"] = ["x" * 60_000]
        wide = ask(address, request("POST", JOBS, sent))
        assert (wide.code, str(LARGEST_JOB_BYTES) in wide.data["error"]["message"]) == (400, True)
        assert create(address, "fits", ["x" * 1000] * 60).code == 200
        assert [one.job_id for one in found.records.records()] == ["fits"]


def test_a_caller_and_a_project_have_so_many_jobs_waiting(tmp_path: Path) -> None:
    with standing(tmp_path, queue=QueueLimits(all=5, caller=3)) as (found, address):
        assert [create(address, f"mine_{number}").code for number in range(4)] == [200, 200, 200, 429]
        refused = create(address, "mine_4")
        assert (refused.status, refused.headers["retry-after"]) == ("RESOURCE_EXHAUSTED", "60")
        assert "You have 3 jobs waiting" in refused.data["error"]["message"]
        # Who asks again for a job that is there is told so, and what somebody else has is theirs.
        assert create(address, "mine_0").code == 409
        assert [create(address, f"theirs_{number}", who=ADMIN).code for number in range(3)] == [200, 200, 429]
        assert "The project has 5" in create(address, "theirs_3", who=ADMIN).data["error"]["message"]
        # One that is cancelled or begun waits no more.
        cancelled = request("POST", f"{JOBS}/mine_0:cancel", {}, authorization=f"Bearer {DEVELOPER}")
        assert ask(address, cancelled).code == 200
        assert create(address, "mine_5").code == 200
        found.records.begin("mine_1", "x", {"environment": "sandbox"}, submitted=True)
        assert create(address, "mine_6").code == 200


def test_creates_at_once_do_not_pass_the_bound(tmp_path: Path) -> None:
    with standing(tmp_path, queue=QueueLimits(all=100, caller=7)) as (found, address):
        with ThreadPoolExecutor(12) as threads:
            codes = [one.code for one in threads.map(partial(create, address), [f"j_{n}" for n in range(40)])]
        assert sorted(codes) == [200] * 7 + [429] * 33
        assert len(found.records.records()) == 7


def pages(address: Address, query: str = "") -> list[Reply]:
    """Every page of a list."""
    found = [ask(address, request("GET", f"{JOBS}?pageSize=100{query}"))]
    while token := found[-1].data.get("nextPageToken"):
        found.append(ask(address, request("GET", f"{JOBS}?pageSize=100{query}&pageToken={token}")))
    return found


def test_a_page_has_so_many_bytes_and_the_list_is_whole(tmp_path: Path) -> None:
    with standing(tmp_path) as (_, address):
        for number in range(150):
            assert create(address, f"j_{number}", ["x" * 60_000]).code == 200
        found = pages(address)
        assert all(len(page.body) <= LARGEST_PAGE_BYTES + 1000 for page in found)
        assert len(found) > 2
        assert [one["jobId"] for page in found for one in page.data["jobs"]] == [
            f"j_{number}" for number in reversed(range(150))
        ]
        some = pages(address, "&filter=trainingInput.args:x%20jobId:j_1*")
        assert sum(len(page.data["jobs"]) for page in some) == 61


def test_a_look_by_a_filter_has_an_end_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(tmp_path) as (_, address):
        for number in range(5):
            assert create(address, f"j_{number}").code == 200
        monkeypatch.setattr("encamp.api.jobs._LONGEST_LOOK_SECONDS", 0.0)
        found = pages(address, "&filter=jobId=j_0")
        assert len(found) == 5
        assert [one["jobId"] for page in found for one in page.data.get("jobs", ())] == ["j_0"]


def test_large_answers_keep_nobody_waiting(tmp_path: Path) -> None:
    """Several callers read megabytes in the most costly form, while probes and small reads are answered."""
    with standing(tmp_path) as (_, address):
        for number in range(70):
            assert create(address, f"j_{number}", ["-" * 10] * 5_000).code == 200
        over = threading.Event()
        sizes: list[int] = []

        def read() -> None:
            while not over.is_set():
                sizes.append(len(ask(address, request("GET", f"{JOBS}?pageSize=100&prettyPrint=true")).body))

        with ThreadPoolExecutor(4) as threads:
            for _ in range(4):
                threads.submit(read)
            took: list[float] = []
            while len(sizes) < 8:
                begun = time.monotonic()
                assert probe(address, "/healthz") == 200
                took.append(time.monotonic() - begun)
            over.set()
        assert max(sizes) > 4 * 2**20
        # An answer of 5 MB is formed in a second; none of the probes waited for a whole one.
        assert sorted(took)[len(took) // 2] < 0.5


def test_a_job_of_the_queue_is_shown_with_its_place_whether_long_or_not(tmp_path: Path) -> None:
    with standing(tmp_path) as (_, address):
        assert create(address, "first", ["x" * 60_000]).code == 200
        assert create(address, "second").code == 200
        shown = {one["jobId"]: one["jobPosition"] for one in ask(address, request("GET", JOBS)).data["jobs"]}
        assert shown == {"first": "1", "second": "2"}
        assert json.loads(ask(address, request("GET", f"{JOBS}/first")).body)["jobPosition"] == "1"
