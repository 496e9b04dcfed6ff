"""Faults that strike the kubernetes provider, which is another process than the cloud that keeps them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.cloud.faults import Asked, FaultKind
from encamp_sandbox.kubernetes.kubeconfig import load
from encamp_sandbox.kubernetes.session import SessionOptions
from encamp_sandbox.kubernetes.struck import FrontFaults, StruckSession
from encamp_sandbox.provider import ProviderError, Resource

if TYPE_CHECKING:
    import httpx
    from tests.sandbox.cloud.conftest import Processes

pytestmark = pytest.mark.slow

TOKEN = "kubernetes:core/v1:ConfigMap"  # noqa: S105 - a type's token
ASKED = Asked(TOKEN, "create", "ns/c")
INPUTS: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}}


def armed(client: httpx.Client, kind: str) -> str:
    fault = {"type": TOKEN, "operation": "create", "kind": kind, "name": "ns/c"}
    return f"/encamp/v1/faults/{client.post('/encamp/v1/faults', json=fault).json()['id']}"


def test_a_refusal_comes_before_the_cluster_is_asked(processes: Processes) -> None:
    async def work() -> None:
        # The cluster does not run: whoever asks it is told so.
        access = load(processes.layout.kubeconfig.read_text(), None, None)
        faults = FrontFaults(processes.layout)
        session = StruckSession(access, SessionOptions(), faults)
        resource = Resource(TOKEN, f"urn:pulumi:dev::test::{TOKEN}::c", "c")
        for said in ("rateLimitExceeded", "does not answer"):
            with pytest.raises(ProviderError, match=said):
                await session.create(resource, INPUTS, time_limit=1, preview=False)
        await session.close()
        await faults.close()

    with processes.client() as client:
        path = armed(client, "429")
        asyncio.run(work())
        struck = client.get(path).json()["struck"]
        assert [(one["operation"], one["name"]) for one in struck] == [("create", "ns/c")]
        client.delete(path)


def test_a_pause_ends_when_its_fault_is_deleted(processes: Processes) -> None:
    async def work(client: httpx.Client, path: str) -> None:
        faults = FrontFaults(processes.layout)
        strike = await faults.strike(ASKED)
        assert strike is not None
        assert strike.kind is FaultKind.PAUSE
        waiting = asyncio.create_task(faults.released(strike.fault))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await asyncio.to_thread(client.delete, path)
        await asyncio.wait_for(waiting, 10)
        assert await faults.strike(ASKED) is None
        await faults.close()

    with processes.client() as client:
        asyncio.run(work(client, armed(client, "pause")))


def test_nothing_strikes_while_the_cloud_does_not_answer(processes: Processes) -> None:
    async def work() -> None:
        faults = FrontFaults(processes.layout)
        assert await faults.strike(ASKED) is None
        await faults.close()

    processes.kill("cloud")
    try:
        asyncio.run(work())
    finally:
        processes.start("cloud")
