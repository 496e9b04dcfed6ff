"""What GKE refuses of a node pool's machines: accelerators, TPU slices, disks, reservations and networks.

Which machine has what is the catalog's; machines that it does not know are not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp.sandbox.cloud.gcp.model import Rule, short
from encamp.spec import machines_today

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_GPUS = "cloud.google.com/compute/docs/gpus#gpus-list"
_TPU = "cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus"
_DISKS = "cloud.google.com/compute/docs/disks#machine_type_support"
_REFERENCE = "cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools"
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def _config(inputs: Properties) -> dict[str, Any]:
    return inputs.get("nodeConfig") or {}


def _machine(inputs: Properties) -> catalog.Machine | None:
    try:
        return catalog.machine(str(_config(inputs).get("machineType") or ""))
    except PlanError:
        return None


def _accelerators(inputs: Properties, _: Context) -> Problem:
    machine, wanted = _machine(inputs), _config(inputs).get("guestAccelerators") or []
    if machine is None or not wanted:
        return None
    if len(wanted) > 1:
        return "guest_accelerators: a node has accelerators of one type"
    kind, count = str(wanted[0].get("type")), int(wanted[0].get("count") or 0)
    if machine.accelerator is None:
        return _attached(machine, kind, count)
    if machine.is_tpu:
        return f"Machine type {machine.name} is a TPU host: guest accelerators cannot be attached to it."
    given, has = f"{count} x {kind}", f"{machine.accelerator.count} x {machine.accelerator.type}"
    return None if given == has else f"Machine type {machine.name} has {has}, not {given}."


def _attached(machine: catalog.Machine, kind: str, count: int) -> Problem:
    gpu = catalog.gpu_of_gke(kind)
    if gpu is None or not gpu.offered:
        return f"Accelerator type {kind} does not exist or is no longer offered."
    most = gpu.max_vcpu.get(count)
    if gpu.machines or most is None or machine.vcpu > most or not machine.name.startswith(f"{gpu.family}-"):
        return f"Number and type of accelerators requested is not compatible with {machine.name}: {count} x {kind}."
    return None


def tpu_hosts(machine_type: str, topology: str) -> int | None:
    """How many machines of a type form the TPU slice of a topology; None where they form none."""
    version = machines_today.tpu_hosts().get(machine_type)
    found = machines_today.tpu_slice(version, topology, machine_type) if version else None
    return found.hosts if found else None


def placed_topology(inputs: Properties, context: Context) -> str | None:
    """The topology that a pool's placement asks for, by itself or by the workload policy that it names."""
    placement = inputs.get("placementPolicy") or {}
    if placement.get("tpuTopology"):
        return str(placement["tpuTopology"])
    name = placement.get("policyName")
    for policy in context.cloud.store.all_of("resourcePolicy") if name else ():
        if policy.short_name == short(name):
            found = (policy.body["inputs"].get("workloadPolicy") or {}).get("acceleratorTopology")
            return str(found) if found else None
    return None


def _policy(inputs: Properties, context: Context) -> Problem:
    name = (inputs.get("placementPolicy") or {}).get("policyName")
    known = {policy.short_name for policy in context.cloud.store.all_of("resourcePolicy")}
    return None if not name or short(name) in known else f"The resource policy '{short(name)}' was not found."


def _slice(inputs: Properties, context: Context) -> Problem:
    machine, topology = _machine(inputs), placed_topology(inputs, context)
    name = str(_config(inputs).get("machineType") or "the default one")
    if topology is None:
        several = machine is not None and machine.is_tpu and catalog.single_host_topology(machine.name) is None
        return f"Machine type {name} requires a placement policy with a TPU topology." if several else None
    if machine is None or not machine.is_tpu:
        return f"tpu_topology requires a TPU machine type, not {name}"
    hosts = tpu_hosts(machine.name, topology)
    if hosts is None:
        return f"TPU topology {topology} is not supported for machine type {name}."
    if hosts == 1:
        return f"TPU topology {topology} is a slice of one {name}: a single-host pool takes no tpu_topology."
    return _size(inputs, hosts, topology)


def _size(inputs: Properties, hosts: int, topology: str) -> Problem:
    """A slice of several hosts comes whole or not at all."""
    scaling = inputs.get("autoscaling")
    if scaling is None:
        count = inputs.get("nodeCount", inputs.get("initialNodeCount"))
        return None if count in {None, hosts} else f"A TPU slice of {topology} has {hosts} nodes, not {count}."
    if scaling.get("totalMaxNodeCount") is not None:
        return "A multi-host TPU slice is autoscaled by max_node_count, not by total_max_node_count."
    most = scaling.get("maxNodeCount")
    return None if most == hosts else f"A TPU slice of {topology} has {hosts} nodes: max_node_count cannot be {most}."


def _disk(inputs: Properties, _: Context) -> Problem:
    kind, machine = _config(inputs).get("diskType"), str(_config(inputs).get("machineType") or "")
    possible = machines_today.disk_types(machine)
    if not kind or not possible or kind in possible:
        return None
    return f"[{kind}] features are not compatible for creating instance of machine type {machine}."


def _reservation(inputs: Properties, _: Context) -> Problem:
    affinity = _config(inputs).get("reservationAffinity") or {}
    kind = affinity.get("consumeReservationType")
    named = affinity.get("key") == _RESERVATION_KEY and bool(affinity.get("values"))
    if kind == "SPECIFIC_RESERVATION" and not named:
        return f"a specific reservation needs key {_RESERVATION_KEY} and its name in values"
    if kind not in {None, "SPECIFIC_RESERVATION"} and (affinity.get("key") or affinity.get("values")):
        return f"{kind} takes neither key nor values"
    return None


def _network_profile(inputs: Properties, _: Context) -> Problem:
    profile = (inputs.get("networkConfig") or {}).get("acceleratorNetworkProfile")
    machine = _machine(inputs)
    if profile is None:
        return None
    if profile != "auto":
        return f"accelerator_network_profile is auto, not {profile}"
    if machine is not None and machine.network_profile is None:
        return f"Machine type {machine.name} does not support an accelerator network profile."
    return None


_C = "nodeConfig"
MACHINE_RULES: Final = (
    Rule("accelerators of a machine", _GPUS, (_C,), _accelerators, api=True),
    Rule("placement policy", _REFERENCE + "#PlacementPolicy", ("placementPolicy",), _policy, api=True, code=404),
    Rule(
        "TPU slice", _TPU, ("placementPolicy", _C, "autoscaling", "nodeCount", "initialNodeCount"), _slice, api=True,
    ),
    Rule("disk of a machine", _DISKS, (_C,), _disk, api=True),
    Rule("reservation", _REFERENCE + "#ReservationAffinity", (_C,), _reservation, api=True),
    Rule("network profile", _REFERENCE + "#NodeNetworkConfig", ("networkConfig", _C), _network_profile, api=True),
)  # fmt: skip
