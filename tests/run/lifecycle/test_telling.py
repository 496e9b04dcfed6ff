"""What the project's log is told, as the environment's metrics and alerts read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from encamp.run.lifecycle.telling import Teller
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from encamp.cloud.rest import GoogleClient


class Client:
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def request(self, *_: Any, json: dict[str, Any], **__: Any) -> None:
        self.bodies.append(json)


def teller(client: Client, cluster: str) -> Teller:
    google = cast("GoogleClient", client)
    return Teller(google, project="p", cluster=cluster, labels={"encamp-environment": "lab"}, show=print)


def test_a_receipts_cost_is_told_as_a_number() -> None:
    client = Client()
    receipt = {"cost": {"amount": 1.25, "currency": "USD"}, "nodeSeconds": {"g2-standard-4": 7200.0}}
    outcome = Outcome(State.FAILED, "worker-0 exited with 7")
    teller(client, "projects/p/locations/r/clusters/c").ended("job", "j", outcome, receipt)
    (body,) = client.bodies
    assert body["resource"]["labels"] == {"project_id": "p", "location": "r", "cluster_name": "c"}
    (entry,) = body["entries"]
    assert entry["jsonPayload"]["costUsd"] == 1.25
    assert (entry["jsonPayload"]["state"], entry["jsonPayload"]["why"]) == ("FAILED", "worker-0 exited with 7")


def test_without_a_price_or_a_cluster_neither_is_made_up() -> None:
    client = Client()
    teller(client, "").ended("job", "j", Outcome(State.CANCELLED, ""), {"cost": {"amount": None}})
    (body,) = client.bodies
    assert body["resource"] == {"type": "global"}
    assert "costUsd" not in body["entries"][0]["jsonPayload"]
