"""GKE's rules for a node pool's machines: accelerators, TPU slices, disks, reservations and networks.

Which machine has what is the catalog's; machines that it does not know are not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp.errors import PlanError
from encamp.plan.machines import catalog
from encamp.spec import machines_today
from encamp_sandbox.cloud.rest.rules import Rule
from encamp_sandbox.cloud.rest.values import short
from encamp_sandbox.cloud.services.container.pool_fill import placed_topology, tpu_hosts
from encamp_sandbox.cloud.services.container.pool_rules import config_of, scaling_of

if TYPE_CHECKING:
    from encamp_sandbox.cloud.rest.rules import Change, Problem

_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def _machine(change: Change) -> catalog.Machine | None:
    try:
        return catalog.machine(str(config_of(change).get("machineType") or ""))
    except PlanError:
        return None


def _accelerators(change: Change) -> Problem:
    machine, wanted = _machine(change), config_of(change).get("accelerators") or []
    if machine is None or not wanted:
        return None
    if len(wanted) > 1:
        return "accelerators: a node has accelerators of one type"
    kind, count = str(wanted[0].get("acceleratorType")), int(wanted[0].get("acceleratorCount") or 0)
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


def _policy(change: Change) -> Problem:
    name = change.at("placementPolicy.policyName")
    known = {policy.short_name for policy in change.cloud.store.all_of("resourcePolicy")}
    return None if not name or short(name) in known else f"The resource policy '{short(name)}' was not found."


def _slice(change: Change) -> Problem:
    machine, topology = _machine(change), placed_topology(change.body, change.cloud)
    name = str(config_of(change).get("machineType") or "the default one")
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
    return _size(change, hosts, topology)


def _size(change: Change, hosts: int, topology: str) -> Problem:
    """Refuse a part of a multi-host slice: it is created whole or not at all."""
    scaling = scaling_of(change)
    if scaling is None:
        count = int(change.at("initialNodeCount") or 0)
        return None if count in {0, hosts} else f"A TPU slice of {topology} has {hosts} nodes, not {count}."
    if scaling.get("totalMaxNodeCount"):
        return "A multi-host TPU slice is autoscaled by max_node_count, not by total_max_node_count."
    most = int(scaling.get("maxNodeCount") or 0)
    return None if most == hosts else f"A TPU slice of {topology} has {hosts} nodes: max_node_count cannot be {most}."


def _disk(change: Change) -> Problem:
    config = config_of(change)
    kind, machine = config.get("diskType"), str(config.get("machineType") or "")
    possible = machines_today.disk_types(machine)
    if not kind or not possible or kind in possible:
        return None
    return f"[{kind}] features are not compatible for creating instance of machine type {machine}."


def _reservation(change: Change) -> Problem:
    affinity = config_of(change).get("reservationAffinity") or {}
    kind = affinity.get("consumeReservationType")
    named = affinity.get("key") == _RESERVATION_KEY and bool(affinity.get("values"))
    if kind == "SPECIFIC_RESERVATION" and not named:
        return f"a specific reservation needs key {_RESERVATION_KEY} and its name in values"
    if kind not in {None, "SPECIFIC_RESERVATION"} and (affinity.get("key") or affinity.get("values")):
        return f"{kind} takes neither key nor values"
    return None


def _network_profile(change: Change) -> Problem:
    profile = change.at("networkConfig.acceleratorNetworkProfile")
    machine = _machine(change)
    if not profile:
        return None
    if profile != "auto":
        return f"accelerator_network_profile is auto, not {profile}"
    if machine is not None and machine.network_profile is None:
        return f"Machine type {machine.name} does not support an accelerator network profile."
    return None


MACHINE_RULES: Final = (
    Rule("gke-accelerators-of-machines", _accelerators),
    Rule("gke-placement-policy-exists", _policy, code=404),
    Rule("gke-tpu-slices", _slice),
    Rule("gke-disks-of-machines", _disk),
    Rule("gke-reservations-are-named", _reservation),
    Rule("gke-accelerator-network-profiles", _network_profile),
)
