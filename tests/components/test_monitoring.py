"""What an environment declares of its dashboard and alerts, and that Cloud Monitoring's rules take it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.access import write_access
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.gcp_provider.client import Rest
from encamp_sandbox.gcp_provider.model import Context
from encamp_sandbox.gcp_provider.session import GcpSession
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.provider import Resource, ResourceState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

Resources = dict[str, dict[str, Any]]
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"


@pytest.fixture
def monitoring(declared: Callable[[str], Resources]) -> Resources:
    rooms = ("gcp:monitoring", "gcp:logging", "encamp:components:Monitoring")
    return {key: inputs for key, inputs in declared("with-monitoring").items() if key.startswith(rooms)}


def test_an_environment_with_monitoring_is_what_its_golden_says(
    monitoring: Resources, same_as_golden: Callable[[Resources, str], None]
) -> None:
    board = monitoring["gcp:monitoring/dashboard:Dashboard jobs"]
    shown = {**board, "dashboardJson": json.loads(board["dashboardJson"])}
    same_as_golden({**monitoring, "gcp:monitoring/dashboard:Dashboard jobs": shown}, "monitoring")


def test_every_alert_tells_people_of_its_own_and_given_channels(monitoring: Resources) -> None:
    policies = [inputs for key, inputs in monitoring.items() if key.startswith(POLICY)]
    assert len(policies) == 5
    for policy in policies:
        assert policy["notificationChannels"] == [
            "projects/my-lab-project/notificationChannels/1",
            "projects/my-lab-project/notificationChannels/7",
        ]
        assert "encamp" in policy["documentation"]["content"]


def test_the_rules_of_google_take_all_of_it(monitoring: Resources, tmp_path: Path) -> None:
    layout = Layout.create(tmp_path / "sb")
    issue_certificates(layout)
    write_access(layout, {}, path="")
    cloud = Cloud.open(tmp_path / "cloud.sqlite3", "sandbox-encamp", layout)
    front, _ = make_front(cloud, layout)
    session = GcpSession(Context(rest=Rest.inside(front, layout.token), project="sandbox-encamp"))
    made: dict[str, str] = {}

    async def make(key: str, inputs: dict[str, Any]) -> None:
        token, _, name = key.partition(" ")
        resource = Resource(token, f"urn:pulumi:dev::encamp::{token}::{name}", name)
        text = json.dumps(inputs).replace("my-lab-project", "sandbox-encamp")
        for number, given in (("1", made.get("own")), ("7", made.get("given"))):
            text = text.replace(f'"projects/sandbox-encamp/notificationChannels/{number}"', json.dumps(given))
        checked = await session.check(resource, {}, json.loads(text), seed=b"seed")
        assert list(checked.failures) == [], key
        answer = await session.create(resource, checked.inputs, time_limit=None, preview=False)
        state = ResourceState(answer.resource_id, checked.inputs, answer.outputs)
        read = await session.read(resource, state)
        assert read is not None
        assert (read.inputs, read.outputs) == (state.inputs, state.outputs), key
        made[{"mail-ml-oncall@example.com": "own"}.get(name, name)] = answer.resource_id

    async def all_of_them() -> None:
        mail = f"{CHANNEL} mail-ml-oncall@example.com"
        await make(f"{CHANNEL} given", monitoring[mail])
        await make(mail, monitoring[mail])
        for key, inputs in monitoring.items():
            if key.startswith("gcp:") and key != mail:
                await make(key, inputs)

    asyncio.run(all_of_them())
    cloud.close()
    assert len(made) == 1 + sum(key.startswith("gcp:") for key in monitoring)
