"""Creating a job when others want to, when a client asks again, and when it takes too long: once or not at all."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import httpx
import pytest
from tests.api.world import ADMIN, DEVELOPER, PROJECT, World, job, world

from encamp.cloud.rest import RestError
from encamp.errors import EngineError, PlanError, Problem, UsageError
from encamp.preflight import DataError
from encamp.run.lifecycle.driver import JobEndedError
from encamp.run.store import again
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from encamp.plan.model import JobPlan

pytestmark = pytest.mark.slow
JOBS = f"/v1/projects/{PROJECT}/jobs"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


def talk(service: World, work: Callable[[httpx.AsyncClient], Awaitable[Any]], token: str = ADMIN) -> Any:
    """What clients of a service do, in one loop."""

    async def all_of_it() -> Any:
        transport = httpx.ASGITransport(service.app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
            return await work(http)

    return asyncio.run(all_of_it())


def create(service: World, body: dict[str, Any], token: str = ADMIN) -> httpx.Response:
    return talk(service, lambda http: http.post(JOBS, json=body), token)


def status(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("error", {}).get("status", "")


@pytest.mark.parametrize("alike", [True, False])
def test_of_fifty_one_wins(service: World, alike: bool) -> None:
    bodies = [job("raced", labels={"n": "same" if alike else str(number)}) for number in range(50)]

    async def race(http: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(http.post(JOBS, json=body) for body in bodies))

    answers = talk(service, race)

    (won,) = [answer.json() for answer in answers if answer.status_code == 200]
    assert {status(answer) for answer in answers if answer.status_code != 200} == {(409, "ALREADY_EXISTS")}
    (record,) = service.records.records()
    assert record.submitted is not None
    assert record.submitted.job["labels"] == won["labels"]
    assert service.told.woken == 1


def test_a_conflict_says_what_the_service_of_before_said(service: World) -> None:
    create(service, job("taken"))

    answer = create(service, job("taken", labels={"other": "body"}))

    assert status(answer) == (409, "ALREADY_EXISTS")
    error = answer.json()["error"]
    assert error["message"] == "Field: job.job_id Error: A job with this id already exists."
    violation = {"field": "job.job_id", "description": "A job with this id already exists."}
    assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]


def test_who_asks_again_later_gets_their_own_job(service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = create(service, job("again"))
    assert status(create(service, job("again"))) == (409, "ALREADY_EXISTS")

    monkeypatch.setattr(again, "RACE_SECONDS", -1.0)
    second = create(service, job("again"))

    assert second.status_code == 200
    assert {**second.json(), "jobPosition": None} == {**first.json(), "jobPosition": None}
    assert status(create(service, job("again"), DEVELOPER)) == (409, "ALREADY_EXISTS")
    assert status(create(service, job("again", labels={"a": "b"}))) == (409, "ALREADY_EXISTS")
    assert len(service.records.records()) == 1
    assert service.told.woken == 1


def test_who_was_told_of_an_error_gets_their_own_job(service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written, though the answer was a 5xx, is not in the way of the same create again."""
    submit = service.submissions.submit

    def failing(*words: Any, **more: Any) -> Any:
        submit(*words, **more)
        raise RecordError(service.records.transactions.database, Exception())  # type: ignore[arg-type]

    monkeypatch.setattr(service.submissions, "submit", failing)
    assert status(create(service, job("lost"))) == (503, "UNAVAILABLE")
    monkeypatch.setattr(service.submissions, "submit", submit)

    again = create(service, job("lost"))

    assert (again.status_code, again.json()["state"]) == (200, "QUEUED")
    assert status(create(service, job("lost", labels={"a": "b"}))) == (409, "ALREADY_EXISTS")


def test_what_takes_too_long_is_not_created(tmp_path: Path) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def slow(_: JobPlan) -> None:
        waiting.set()
        assert go_on.wait(30)

    with world(tmp_path, look=slow, plan_seconds=0.2) as service:
        try:
            answer = create(service, job("slow"))
            # The check goes on after the answer; on a busy machine it begins only then.
            assert waiting.wait(60)
        finally:
            go_on.set()

        assert status(answer) == (504, "DEADLINE_EXCEEDED")
        assert service.records.records() == []
        assert create(service, job("slow")).status_code == 200


def test_who_waits_for_the_cloud_is_in_nobodys_way(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slow(_: JobPlan) -> None:
        assert go_on.wait(30)

    async def busy(http: httpx.AsyncClient) -> list[int]:
        creates = [asyncio.create_task(http.post(JOBS, json=job(f"j{number}"))) for number in range(40)]
        await asyncio.sleep(0.1)
        reads = [await http.get(JOBS, params={"filter": "state:QUEUED"}) for _ in range(5)]
        go_on.set()
        return [answer.status_code for answer in [*reads, *await asyncio.gather(*creates)]]

    with world(tmp_path, look=slow) as service:
        assert talk(service, busy) == [200] * 45
        assert len(service.submissions.waiting("sandbox")) == 40


DATA = DataError("j", [Problem("trainingInput.jobDir", None, None, "there is no bucket gs://b", "create it")])


@pytest.mark.parametrize(
    ("trouble", "answer", "said", "field"),
    [
        (DATA, (400, "FAILED_PRECONDITION"), "there is no bucket gs://b; try: create it", "training_input.job_dir"),
        (
            PlanError("it is too large", where="trainingInput.workerCount"),
            (400, "FAILED_PRECONDITION"),
            "it is too large",
            "training_input.worker_count",
        ),
        (UsageError("there is no study"), (400, "FAILED_PRECONDITION"), "there is no study", "training_input"),
        (JobEndedError("ended"), (409, "ALREADY_EXISTS"), "already exists", "job.job_id"),
        (RestError("it is away", status=503, where="x"), (503, "UNAVAILABLE"), "it is away", None),
        (EngineError("the artifacts bucket is not there"), (400, "FAILED_PRECONDITION"), "the artifacts bucket", None),
        (ZeroDivisionError(), (500, "INTERNAL"), "Internal error", None),
    ],
)
def test_what_speaks_against_a_job_is_said(
    tmp_path: Path, trouble: Exception, answer: tuple[int, str], said: str, field: str | None
) -> None:
    def look(_: JobPlan) -> None:
        raise trouble

    with world(tmp_path, look=look) as service:
        found = create(service, job("refused"))

        assert status(found) == answer
        error = found.json()["error"]
        assert said in error["message"]
        fields = [one["field"] for part in error.get("details", ()) for one in part["fieldViolations"]]
        assert fields == ([field] if field else [])
        assert service.records.records() == []
        assert service.told.woken == 0


def test_a_job_that_the_environment_forbids_is_refused(service: World) -> None:
    sent = job("far")
    sent["encamp"] = {"queue": "nobodys"}

    found = create(service, sent)

    assert found.status_code == 400
    assert service.records.records() == []


def test_priority_and_patience_are_of_the_job(service: World) -> None:
    patient = job("patient")
    patient["trainingInput"]["scheduling"] = {"maxWaitTime": "7200s", "priority": "900"}

    assert create(service, patient).status_code == 200
    assert create(service, job("usual")).status_code == 200

    first, second = service.submissions.waiting("sandbox")
    assert (first.job_id, first.priority) == ("patient", 900)
    assert first.wait_until == pytest.approx(first.at + 7200)
    assert (second.job_id, second.priority, second.wait_until) == ("usual", 5, None)


def test_a_job_whose_cloud_name_is_another_ones_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the one may ever be taken for the other's; it takes 2^80 tries to find such an id."""
    monkeypatch.setattr("encamp.api.planning.short_name", Mock(return_value="the-same-name"))
    with world(tmp_path) as service:

        async def creates(http: httpx.AsyncClient) -> list[httpx.Response]:
            return [await http.post(JOBS, json=job(name)) for name in ("first", "second", "first")]

        first, second, again = talk(service, creates)
        assert (first.status_code, second.status_code) == (200, 409)
        assert "the cloud name the-same-name was used by another job" in second.json()["error"]["message"]
        assert again.status_code == 409
        assert [record.job_id for record in service.records.records()] == ["first"]
