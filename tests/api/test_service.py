"""The parts of the service together, in a pod: what a client hands in comes to the drivers' namespace, once."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from encamp.api.identity import IdentityOptions
from encamp.api.service import ServiceOptions, opened_service
from encamp.cloud.rest import GoogleClient
from encamp.errors import UsageError
from encamp.plan.environment.planning import plan_environment
from encamp.run.history.context import Context
from encamp.run.store.encryption import KEY_VARIABLE
from encamp.spec.environment import EnvironmentSpec, parse_environment

if TYPE_CHECKING:
    from encamp.api.server import Service

FILE = Path(__file__).parents[1] / "components" / "environments" / "with-an-api.yaml"
pytestmark = pytest.mark.slow

JOBS = "/v1/projects/my-lab-project/jobs"
KEY = "Zm9yIHRlc3RzIG9ubHksIDMyIGJ5dGVzIG9mIHRleHQ="
SIGNED_ARGUMENT = "--url=https://storage.googleapis.com/b/o?X-Goog-Signature=canary0signature"
BODY = {
    "jobId": "census_1",
    "trainingInput": {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://my-packages/trainer-0.1.tar.gz"],
        "pythonModule": "trainer.task",
        "args": [SIGNED_ARGUMENT],
    },
}


@pytest.fixture
def spec() -> EnvironmentSpec:
    return parse_environment(yaml.safe_load(FILE.read_text()), project=None, source="x")


@pytest.fixture
def pod(kubernetes: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process that is a pod of a cluster, whose record outlives it, and whose job's data is as it must be."""

    def quiet(*_: Any) -> None:
        return None

    def shared() -> bool:
        return True

    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("ENCAMP_RECORD_URL", raising=False)
    monkeypatch.setattr("encamp.api.service.shared_record", shared)
    monkeypatch.setattr("encamp.api.service.pod_kubeconfig", kubernetes.kubeconfig)
    monkeypatch.setattr("encamp.api.service.look_ahead", quiet)
    monkeypatch.setattr("encamp.api.service._number", quiet)
    return kubernetes


async def asked(service: Service, *calls: tuple[str, str, Any]) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app=service.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return [await client.request(verb, path, json=body) for verb, path, body in calls]


def until_handed_over(kubernetes: Any) -> dict[str, Any]:
    """The driver's Secret, once its Job stands."""
    end = time.monotonic() + 30
    while not any(kind == "secrets" for kind, _ in kubernetes.objects):
        assert time.monotonic() < end, "nothing was handed over"
        time.sleep(0.05)
    ((_, secret),) = [item for item in kubernetes.objects.items() if item[0][0] == "secrets"]
    found: dict[str, Any] = secret
    return found


def test_a_job_of_a_client_is_handed_over_to_the_clusters_drivers(
    spec: EnvironmentSpec, pod: Any, tmp_path: Path
) -> None:
    said: list[str] = []
    context = Context(said.append, lambda *_: None, folder=tmp_path, client=object.__new__(GoogleClient))
    options = ServiceOptions("prod", 2, None, tmp_path / "audit.jsonl", in_cluster=True)
    with opened_service(spec, context, options) as service:
        service.ready()
        assert not service.credentials
        created, again, config = asyncio.run(
            asked(service, ("POST", JOBS, BODY), ("POST", JOBS, {**BODY, "labels": {"a": "b"}}),
                  ("GET", "/v1/projects/my-lab-project:getConfig", None))
        )  # fmt: skip
        assert (created.status_code, created.json()["state"]) == (200, "QUEUED")
        assert again.status_code == 409
        driver = plan_environment(spec).driver
        assert driver is not None
        assert config.json() == {"serviceAccount": driver.email}
        secret = until_handed_over(pod)
    # Drivers need no key: each has its job, as it was sent.
    sent = json.loads(secret["stringData"]["job.json"])
    assert sent["trainingInput"]["args"] == [SIGNED_ARGUMENT]
    made = [name for kind, name in pod.objects if kind == "jobs"]
    assert len(made) == 1
    command = pod.objects["jobs", made[0]]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["encamp", "drive"]
    assert command[-2:] == ["--environment", "prod"]
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"canary0signature" not in file.read_bytes(), file.name
    assert KEY not in "".join(said)


def test_the_next_server_finds_the_driver_that_the_last_one_made(
    spec: EnvironmentSpec, pod: Any, tmp_path: Path
) -> None:
    context = Context(lambda _: None, lambda *_: None, folder=tmp_path, client=object.__new__(GoogleClient))
    options = ServiceOptions("prod", 2, None, tmp_path / "audit.jsonl", in_cluster=True)
    with opened_service(spec, context, options) as service:
        asyncio.run(asked(service, ("POST", JOBS, BODY)))
        until_handed_over(pod)
    with opened_service(spec, context, options) as service:
        (found,) = asyncio.run(asked(service, ("GET", f"{JOBS}/census_1", None)))
        assert found.json()["state"] == "QUEUED"
    assert sum(request.method == "POST" and request.path.endswith("/jobs") for request in pod.requests) == 1


def test_a_pod_keeps_neither_record_nor_key(
    spec: EnvironmentSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ENCAMP_RECORD_URL", raising=False)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    context = Context(lambda _: None, lambda *_: None, folder=tmp_path, client=object.__new__(GoogleClient))
    options = ServiceOptions("prod", 1, IdentityOptions(), tmp_path / "audit.jsonl", in_cluster=True)

    def refused() -> str | None:
        with pytest.raises(UsageError) as caught, opened_service(spec, context, options):
            pass
        return caught.value.where

    assert refused() == "ENCAMP_RECORD_URL"
    monkeypatch.setenv("ENCAMP_RECORD_URL", "postgresql+psycopg://nobody:nothing@127.0.0.1:1/none")
    assert refused() == KEY_VARIABLE
