"""What people ask of a project before they make anything of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from encamp.sandbox.cloud.cloud import make_front

if TYPE_CHECKING:
    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.layout import Layout

PROJECT = "projects/sandbox-encamp"
KEY = f"{PROJECT}/locations/us-central1/keyRings/encamp/cryptoKeys/data"


async def asked(
    cloud: Cloud, layout: Layout, *calls: tuple[str, str], body: Any = None
) -> list[tuple[int, dict[str, Any]]]:
    front, storage = make_front(cloud, layout)
    headers = {"authorization": f"Bearer {layout.token}"}
    transport = httpx.ASGITransport(app=front)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
        answers = [
            await http.request("POST" if body is not None else "GET", path, json=body, headers={"host": host})
            for host, path in calls
        ]
    await storage.close()
    return [(answer.status_code, answer.json()) for answer in answers]


def test_what_was_enabled_is_on_beside_what_always_is(cloud: Cloud, layout: Layout) -> None:
    name = f"{PROJECT}/services/container.googleapis.com"
    cloud.store.create("service", name, {"inputs": {"service": "container.googleapis.com"}, "facts": {}})
    path = f"/v1/{PROJECT}/services"
    (status, answer), billing = asyncio.run(
        asked(
            cloud,
            layout,
            ("serviceusage.googleapis.com", path),
            ("cloudbilling.googleapis.com", f"/v1/{PROJECT}/billingInfo"),
        )
    )
    assert status == 200
    assert {one["config"]["name"] for one in answer["services"]} > {
        "container.googleapis.com",
        "serviceusage.googleapis.com",
    }
    assert billing[1]["billingEnabled"] is True


def test_quotas_of_a_region_say_what_its_node_pools_use(cloud: Cloud, layout: Layout) -> None:
    for region, spot in (("us-central1", False), ("us-central1", True), ("europe-west4", False)):
        body = {
            "inputs": {"nodeConfig": {"machineType": "n1-standard-8", "spot": spot}},
            "facts": {"currentNodeCount": 3},
        }
        cloud.store.create("nodePool", f"{PROJECT}/locations/{region}/clusters/c/nodePools/p{spot}", body)
    [(status, answer)] = asyncio.run(
        asked(cloud, layout, ("compute.googleapis.com", f"/compute/v1/{PROJECT}/regions/us-central1"))
    )
    used = {one["metric"]: one["usage"] for one in answer["quotas"]}
    assert status == 200
    assert (used["CPUS"], used["PREEMPTIBLE_CPUS"], used["INSTANCES"], used["N2_CPUS"]) == (24, 24, 6, 0)


def test_quotas_of_families_are_served_as_the_cloud_quotas_api_does(cloud: Cloud, layout: Layout) -> None:
    quota = "GPUS-PER-GPU-FAMILY-per-project-region"
    path = f"/v1/{PROJECT}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}"
    [(status, answer)] = asyncio.run(asked(cloud, layout, ("cloudquotas.googleapis.com", path)))
    assert (status, answer["quotaId"]) == (200, quota)
    assert int(answer["dimensionsInfos"][0]["details"]["value"]) > 0


def test_a_key_is_on_until_it_is_destroyed(cloud: Cloud, layout: Layout) -> None:
    kms = ("cloudkms.googleapis.com", f"/v1/{KEY}")
    assert asyncio.run(asked(cloud, layout, kms))[0][0] == 404
    cloud.store.create("cryptoKey", KEY, {"inputs": {}, "facts": {}})
    assert asyncio.run(asked(cloud, layout, kms))[0][1]["primary"]["state"] == "ENABLED"
    use = "cloudkms.cryptoKeyVersions.useToEncrypt"
    tested = (kms[0], f"{kms[1]}:testIamPermissions")
    assert asyncio.run(asked(cloud, layout, tested, body={"permissions": [use]}))[0][1] == {"permissions": [use]}
    cloud.store.merge(KEY, {"facts": {"destroyed": True}})
    assert asyncio.run(asked(cloud, layout, kms))[0][1]["primary"]["state"] == "DESTROY_SCHEDULED"
