"""The read-only parts of Compute Engine: project, regions with their quotas, zones, operations, instance groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.spec.data_files import data_file
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.services.compute.style import Compute, link, shown_operation
from encamp_sandbox.cloud.services.container.zones import zones_of_region

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask

#: Limit of every quota; more than this machine could run.
LIMIT: Final = 10_000.0
_DISKS = ("DISKS_TOTAL_GB", "SSD_TOTAL_GB", "HDB_TOTAL_GB")
_ZONES = Compute("compute#zone")
_MANAGERS = Compute("compute#instanceGroupManager")


async def _project(ask: Ask) -> dict[str, Any]:
    ask.require("compute.projects.get")
    cloud = ask.cloud
    return {
        "kind": "compute#project",
        "id": cloud.number,
        "name": cloud.project,
        "selfLink": link(f"projects/{cloud.project}"),
        "defaultServiceAccount": f"{cloud.number}-compute@developer.gserviceaccount.com",
        "defaultNetworkTier": "PREMIUM",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
    }


async def _region(ask: Ask) -> dict[str, Any]:
    ask.require("compute.regions.get")
    region = ask.variables["region"]
    return {
        "kind": "compute#region",
        "name": region,
        "selfLink": link(ask.name),
        "status": "UP",
        "zones": [link(f"projects/{ask.cloud.project}/zones/{zone}") for zone in zones_of_region(region)],
        "quotas": regional_quotas(ask.cloud, region),
    }


async def _zone(ask: Ask) -> dict[str, Any]:
    ask.require("compute.zones.get")
    zone = ask.variables["zone"]
    region = link(f"projects/{ask.cloud.project}/regions/{zone.rpartition('-')[0]}")
    return {"kind": "compute#zone", "name": zone, "selfLink": link(ask.name), "status": "UP", "region": region}


async def _operation(ask: Ask) -> dict[str, Any]:
    found = ask.cloud.operations.find(ask.name)
    if found is None:
        raise _ZONES.missing(ask.name)
    return shown_operation(found)


async def _wait(ask: Ask) -> dict[str, Any]:
    """Answer as ``get`` does: a client that waits asks again."""
    found = ask.cloud.operations.find(ask.parent)
    if found is None:
        raise _ZONES.missing(ask.parent)
    return shown_operation(found)


async def _managers(ask: Ask) -> dict[str, Any]:
    ask.require("compute.instanceGroupManagers.list")
    found = [shown for zone, shown in _groups(ask.cloud) if zone == ask.variables["zone"]]
    return _MANAGERS.listed(ask, "items", found)


async def _manager(ask: Ask) -> dict[str, Any]:
    ask.require("compute.instanceGroupManagers.get")
    for zone, shown in _groups(ask.cloud):
        if (zone, shown["name"]) == (ask.variables["zone"], ask.variables["name"]):
            return shown
    raise GoogleError(404, f"The resource '{ask.name}' was not found", belief="api-missing-is-404")


def _groups(cloud: Cloud) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the managed instance groups of all node pools, each with its zone."""
    for pool in cloud.store.all_of("nodePool"):
        urls = pool.body["instanceGroupUrls"]
        nodes = int(pool.body.get("currentNodeCount") or 0)
        for index, url in enumerate(urls):
            zone, name = url.split("/")[-3], url.rpartition("/")[2]
            yield (
                zone,
                {
                    "kind": "compute#instanceGroupManager",
                    "name": name,
                    "zone": link(f"projects/{cloud.project}/zones/{zone}"),
                    "selfLink": url,
                    "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
                    "baseInstanceName": name.removesuffix("-grp"),
                    "targetSize": nodes // len(urls) + (index < nodes % len(urls)),
                },
            )


def regional_quotas(cloud: Cloud, region: str) -> list[dict[str, Any]]:
    """Return the quotas of a region as Compute Engine lists them; what is in use is that of node pools."""
    table = data_file("quotas")
    metrics = {entry["metric"] for kind in ("cpus", "gpus", "tpus") for entry in table[kind].values()}
    metrics |= {f"{table['preemptible']['prefix']}{metric}" for metric in metrics}
    used = dict.fromkeys(
        sorted({*metrics, *_DISKS, table["preemptible"]["cpus"], "INSTANCES", "IN_USE_ADDRESSES"}), 0.0
    )
    for pool in cloud.store.all_of("nodePool"):
        nodes = int(pool.body.get("currentNodeCount") or 0)
        if f"/locations/{region}/" not in pool.name or not nodes:
            continue
        config = pool.body["config"]
        machine = config["machineType"]
        entry = table["cpus"].get(machine.partition("-")[0])
        used["INSTANCES"] += nodes
        if entry is not None and machine in data_file("machines"):
            taken = table["preemptible"]["cpus"] if config.get("spot") else entry["metric"]
            used[taken] += nodes * data_file("machines")[machine]["vcpu"]
    return [{"metric": metric, "limit": LIMIT, "usage": usage} for metric, usage in used.items()]


_PROJECT: Final = "projects/{project}"
_SCOPES: Final = ("global", "regions/{region}", "zones/{zone}")
PLACES: Final = (
    Route(_PROJECT, ("GET",), _project),
    Route(f"{_PROJECT}/regions/{{region}}", ("GET",), _region),
    Route(f"{_PROJECT}/zones/{{zone}}", ("GET",), _zone),
    *(Route(f"{_PROJECT}/{scope}/operations/{{operation}}", ("GET",), _operation) for scope in _SCOPES),
    *(
        Route(f"{_PROJECT}/{scope}/operations/{{operation}}/wait", ("POST",), _wait, collection="operations")
        for scope in _SCOPES
    ),
    Route(f"{_PROJECT}/zones/{{zone}}/instanceGroupManagers", ("GET",), _managers),
    Route(f"{_PROJECT}/zones/{{zone}}/instanceGroupManagers/{{name}}", ("GET",), _manager),
)
