"""The Compute Engine API as far as jobs have anything there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from encamp.sandbox.cloud.cloud import make_front

if TYPE_CHECKING:
    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.layout import Layout

POLICIES = "projects/sandbox-encamp/regions/us-central1/resourcePolicies"
POOL = "projects/sandbox-encamp/locations/us-central1/clusters/c/nodePools/p"


async def asked(cloud: Cloud, layout: Layout, *calls: tuple[str, str]) -> list[tuple[int, dict[str, Any]]]:
    front, storage = make_front(cloud, layout)
    headers = {"authorization": f"Bearer {layout.token}", "host": "compute.googleapis.com"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=front), base_url="http://x", headers=headers
    ) as http:
        answers = [await http.request(method, f"/compute/v1/{path}") for method, path in calls]
    await storage.close()
    return [(answer.status_code, answer.json()) for answer in answers]


def test_resource_policies_are_listed_and_go_once_no_pool_is_placed_by_them(cloud: Cloud, layout: Layout) -> None:
    for name in ("one", "two"):
        inputs = {"name": name, "description": "encamp-job=j", "workloadPolicy": {"type": "HIGH_THROUGHPUT"}}
        cloud.store.create("resourcePolicy", f"{POLICIES}/{name}", {"inputs": inputs, "facts": {}})
    pool: dict[str, Any] = {"inputs": {"placementPolicy": {"policyName": "one"}}, "facts": {}}
    cloud.store.create("nodePool", POOL, pool)
    aggregated = POLICIES.replace("regions/us-central1", "aggregated")
    listed, everywhere, one, used, gone, absent = asyncio.run(
        asked(
            cloud,
            layout,
            ("GET", POLICIES),
            ("GET", aggregated),
            ("GET", f"{POLICIES}/one"),
            ("DELETE", f"{POLICIES}/one"),
            ("DELETE", f"{POLICIES}/two"),
            ("DELETE", f"{POLICIES}/two"),
        )
    )
    assert [(item["name"], item["description"]) for item in listed[1]["items"]] == [
        ("one", "encamp-job=j"),
        ("two", "encamp-job=j"),
    ]
    assert [item["name"] for item in everywhere[1]["items"]["regions/us-central1"]["resourcePolicies"]] == [
        "one",
        "two",
    ]
    assert one[1]["workloadPolicy"] == {"type": "HIGH_THROUGHPUT"}
    assert (used[0], "already being used" in used[1]["error"]["message"]) == (400, True)
    assert (gone[0], gone[1]["operationType"], absent[0]) == (200, "delete", 404)
