"""Network interfaces with RDMA on the sandbox's nodes: real claims and slices, of devices that are not there.

API server, scheduler and controllers treat them as on GKE, whose managed DRANET publishes them for nodes with its
label. The sandbox publishes those with RDMA only. Replicas speak over the usual network, and their logs say so.
Belief: gke-managed-dranet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.machines.catalog import machine
from encamp.plan.machines.rdma import device_class, driver_label, plugin_image
from encamp.process import OutputLine
from encamp.spec.data_files import data_file
from encamp_sandbox.kubelet.system_pods import STAND_IN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp_sandbox.kubelet.api import Api

_GROUP = "/apis/resource.k8s.io/v1"
_VERSION = "resource.k8s.io/v1"
_SAYS = "devices of this driver are simulated by encamp's sandbox"
#: The profile by which GKE gives such machines the networks of these interfaces.
_PROFILE = "auto"
_PLUGIN = (
    "mkdir -p {0}/lib64 {0}/scripts && echo 'echo \"encamp: RDMA is simulated: NCCL has no plugin here\"' "
    "> {0}/scripts/set_nccl_env.sh"
)


def offered(pool: Mapping[str, Any], machine_type: str, *, dataplane_v2: bool) -> dict[str, int]:
    """Return the devices of a pool's node by class: none without the driver's label or without networks."""
    labels = (pool.get("config") or {}).get("labels") or {}
    profile = (pool.get("networkConfig") or {}).get("acceleratorNetworkProfile")
    count = machine(machine_type).rdma_nics
    if not count or not dataplane_v2 or labels.get(driver_label()) != "true" or profile != _PROFILE:
        return {}
    return {device_class(): count}


def device_classes() -> list[dict[str, Any]]:
    """Return the classes that GKE brings."""
    table = data_file("rdma")
    driver = table["driver"]
    return [
        {
            "apiVersion": _VERSION,
            "kind": "DeviceClass",
            "metadata": {"name": name, "annotations": {STAND_IN: _SAYS}},
            "spec": {
                "selectors": [
                    {
                        "cel": {
                            "expression": f'device.driver == "{driver}" && '
                            f'device.attributes["{driver}"].rdma == {str(rdma).lower()}'
                        }
                    }
                ]
            },
        }
        for name, rdma in table["deviceClasses"].items()
    ]


def resource_slice(node: str, count: int) -> dict[str, Any]:
    """Return the network interfaces of a node, as its driver would publish them."""
    driver = data_file("rdma")["driver"]
    name = _slice_name(node)
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name, "annotations": {STAND_IN: _SAYS}},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu{index}rdma0",
                    "attributes": {
                        f"{driver}/ifName": {"string": f"gpu{index}rdma0"},
                        f"{driver}/rdma": {"bool": True},
                    },
                }
                for index in range(count)
            ],
        },
    }


def _slice_name(node: str) -> str:
    return f"{node}-{data_file('rdma')['driver']}"


class NetworkDevices:
    """Publishes and removes the network interfaces of nodes, and counts the pods' claims."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def prepare(self) -> None:
        """Create the device classes. Raises httpx.HTTPError."""
        for found in device_classes():
            await self._api.create(f"{_GROUP}/deviceclasses", found)

    async def place(self, node: str, devices: Mapping[str, int]) -> None:
        """Publish what a node offers. Raises httpx.HTTPError."""
        for count in devices.values():
            await self._api.create(f"{_GROUP}/resourceslices", resource_slice(node, count))

    async def remove(self, node: Mapping[str, Any]) -> None:
        """Take back what a node offered, if it is one with the driver. Raises httpx.HTTPError."""
        metadata = node.get("metadata") or {}
        if driver_label() in (metadata.get("labels") or {}):
            await self._api.delete(f"{_GROUP}/resourceslices/{_slice_name(metadata['name'])}")

    async def asked(self, pods: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
        """Return the number of claimed devices by class for each pod's UID. Raises httpx.HTTPError."""
        known: dict[str, dict[str, int]] = {}
        found: dict[str, dict[str, int]] = {}
        for pod in pods:
            metadata, total = pod["metadata"], dict[str, int]()
            for claim in pod["spec"].get("resourceClaims") or []:
                path = _claim_path(metadata["namespace"], claim)
                if path not in known:
                    known[path] = _devices(await self._api.get(path) or {})
                for name, count in known[path].items():
                    total[name] = total.get(name, 0) + count
            if total:
                found[metadata["uid"]] = total
        return found


def _claim_path(namespace: str, claim: Mapping[str, Any]) -> str:
    if name := claim.get("resourceClaimTemplateName"):
        return f"{_GROUP}/namespaces/{namespace}/resourceclaimtemplates/{name}"
    return f"{_GROUP}/namespaces/{namespace}/resourceclaims/{claim['resourceClaimName']}"


def _devices(item: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices that a claim, or a claim of a template, requests."""
    spec = item.get("spec") or {}
    spec = spec.get("spec", spec)
    total: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or []:
        exactly = request.get("exactly") or {}
        if "deviceClassName" in exactly:
            name = exactly["deviceClassName"]
            total[name] = total.get(name, 0) + int(exactly.get("count") or 1)
    return total


def notes(container: Mapping[str, Any]) -> list[OutputLine]:
    """Return the first lines of the log of a container with claims."""
    claims = (container.get("resources") or {}).get("claims") or []
    return [
        OutputLine(f"encamp: {claim['name']} simulated: replicas speak over the usual network here".encode())
        for claim in claims
    ]


def installer(container: Mapping[str, Any]) -> list[str] | None:
    """Return the command that replaces the image of NCCL's plugin; None for any other container."""
    mounts = container.get("volumeMounts") or []
    if container.get("image") not in {plugin_image(cpu) for cpu in ("amd64", "arm64")} or not mounts:
        return None
    return ["/bin/sh", "-c", _PLUGIN.format(mounts[0]["mountPath"])]
