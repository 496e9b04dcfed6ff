"""Fields of a pool's nodes that GKE fills in by machine type: local disks, network interface, accelerators' taints.

Beliefs ``gke-local-disks-of-machine-types`` and ``gke-families-with-gvnic-alone``. Source of the fields:
cloud.google.com/kubernetes-engine/docs/how-to/persistent-volumes/local-ssd-raw.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp_sandbox.cloud.rest.values import default

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Local disks of machine types that come with them, by name.
_DISKS: Final[dict[str, int]] = {
    "a2-ultragpu-1g": 1, "a2-ultragpu-2g": 2, "a2-ultragpu-4g": 4, "a2-ultragpu-8g": 8,
    "a3-highgpu-1g": 2, "a3-highgpu-2g": 4, "a3-highgpu-4g": 8, "a3-highgpu-8g": 16,
    "a3-edgegpu-8g": 16, "a3-megagpu-8g": 16, "a3-ultragpu-8g": 32,
    "a4-highgpu-8g": 32, "a4x-highgpu-4g": 4,
}  # fmt: skip
#: Local disks of ``-lssd`` machine types by family and vCPUs.
_LSSD: Final[dict[str, dict[int, int]]] = {
    "c3": {4: 1, 8: 2, 22: 4, 44: 8, 88: 16, 176: 32},
    "c3d": {8: 1, 16: 1, 30: 2, 60: 4, 90: 8, 180: 16, 360: 32},
    "c4": {4: 1, 8: 1, 16: 2, 24: 4, 32: 5, 48: 8, 96: 16, 144: 24, 192: 32, 288: 48},
}
_LSSD_NAME = re.compile(r"(?P<family>[a-z0-9]+)-[a-z]+-(?P<vcpu>\d+)-lssd")
#: Families whose machines have no other network interface than gVNIC.
_GVNIC = ("a3", "a4", "a4x", "c3", "c3d", "c4", "c4a", "c4d", "g2", "g4", "h3", "h4d", "m3", "m4", "n4", "z3",
          "ct5p", "ct6e", "tpu7x")  # fmt: skip
_TPU = ("ct", "tpu")


def local_disks(machine_type: str) -> int:
    """Return the number of local disks that come with a machine type."""
    found = _LSSD_NAME.fullmatch(machine_type)
    if found is not None:
        return _LSSD.get(found["family"], {}).get(int(found["vcpu"]), 1)
    return _DISKS.get(machine_type, 0)


def fill_machine(config: dict[str, Any], cluster: Mapping[str, Any]) -> None:
    """Fill in a node config of a pool of ``cluster``."""
    machine_type = config["machineType"]
    family = machine_type.partition("-")[0]
    asked = ("localSsdCount", "ephemeralStorageLocalSsdConfig", "localNvmeSsdBlockConfig", "ephemeralStorageConfig")
    if (disks := local_disks(machine_type)) and not any(config.get(key) for key in asked):
        config["ephemeralStorageLocalSsdConfig"] = {"localSsdCount": disks}
    if family in _GVNIC:
        default(config, {"gvnic": {"enabled": True}})
    _fill_accelerators(config, machine_type)
    if cluster.get("workloadIdentityConfig"):
        default(config, {"workloadMetadataConfig": {"mode": "GKE_METADATA"}})


def _fill_accelerators(config: dict[str, Any], machine_type: str) -> None:
    try:
        built_in = catalog.machine(machine_type).accelerator
    except PlanError:
        built_in = None
    if built_in is not None and not built_in.type.startswith("tpu"):
        wanted = {"acceleratorCount": str(built_in.count), "acceleratorType": built_in.type}
        default(config, {"accelerators": [wanted]})
    taint = (
        "google.com/tpu" if machine_type.startswith(_TPU) else "nvidia.com/gpu" if config.get("accelerators") else ""
    )
    if taint and all(one.get("key") != taint for one in config.get("taints") or ()):
        config.setdefault("taints", []).append({"key": taint, "value": "present", "effect": "NO_SCHEDULE"})
