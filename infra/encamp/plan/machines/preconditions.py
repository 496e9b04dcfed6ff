"""Preconditions of Google Cloud for a job's machines, checked before anything exists.

Each precondition is one row of :data:`PRECONDITIONS`: its id, what it says, who says so, and the test. All are tested,
and everything that is wrong is said at once. What the job file alone shows is among the rules of ``spec/rules``.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError, PreconditionError, Problem
from encamp.plan.machines.image_rules import Finding, no_tpu_support, wrong_architecture, wrong_cuda
from encamp.plan.machines.placing import offered
from encamp.plan.machines.room import replica_room
from encamp.plan.names import LARGEST_TRIAL, longest_pod_name, trial_name
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from encamp.plan.machines.image_rules import ImageCase
    from encamp.plan.machines.shapes import Shape
    from encamp.plan.machines.system_pods import NodeFeature
    from encamp.plan.model import NodePoolPlan
    from encamp.plan.replicas import RoleRequest
    from encamp.spec.environment import EnvironmentSpec

_TOOLKIT = "GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool/main.tf, preconditions"
_COMPACT = "GKE's page of compact placement"
_FLEX = "GKE's page of Dynamic Workload Scheduler"
_TPU = "GKE's pages of TPU slices"
_GPUS = "Compute Engine's page of accelerator-optimized machines"
_RANGES = "GKE's page of flexible pod ranges"
_NAMES = "kubernetes-sigs/jobset, jobset_webhook.go"
_ROOM = "node_sizes.json, system_pods.json; each entry's source"
_IMAGES = "runtimes.json, images.json, gpus.json; each entry's source"

#: Adopted resources that have ranges of their own, unknown to the environment.
_WITH_RANGES = frozenset({"network", "cluster"})
#: Kubernetes' longest label, and so the longest name of a pod of a job.
LONGEST_LABEL = 63


@dataclass(frozen=True)
class PoolCase:
    """A pool under examination, and where in the job file its machine is asked for."""

    pool: NodePoolPlan
    shape: Shape
    where: str


@dataclass(frozen=True)
class Situation:
    """The input of the preconditions: all pools of a job, and their places.

    Attributes:
        name: the job's short name.
        requests: its roles.
        zone: the zone that the job asks for by name.
        parallel_trials: how often its replicas are there at a time, None if it tunes nothing.
        features: what brings pods of GKE's onto the environment's nodes.
        images: image of each role.
        requirements: what pip adds to the images.
    """

    name: str
    environment: EnvironmentSpec
    pools: Sequence[PoolCase]
    requests: Sequence[RoleRequest]
    zone: str | None = None
    parallel_trials: int | None = None
    features: frozenset[NodeFeature] = frozenset()
    images: Sequence[ImageCase] = ()
    requirements: Sequence[str] = ()


@dataclass(frozen=True)
class Precondition:
    """A rule of Google Cloud or Kubernetes that the job file alone cannot show to be broken."""

    id: str
    sentence: str
    source: str
    test: Callable[[Situation], Iterator[Finding]]


def check(situation: Situation) -> None:
    """Test every precondition.

    Raises:
        PreconditionError: everything that would be refused.
    """
    problems = [
        Problem(where, None, rule.id, message, hint)
        for rule in PRECONDITIONS
        for where, message, hint in dict.fromkeys(rule.test(situation))
    ]
    if problems:
        raise PreconditionError(problems)


def precondition(name: str) -> Precondition | None:
    """Return the precondition of an id such as ``G03``, or None."""
    return next((rule for rule in PRECONDITIONS if rule.id == name.upper()), None)


def _region(situation: Situation) -> Iterator[Finding]:
    region = situation.environment.region
    for case in situation.pools:
        zones = offered(case.shape)
        if zones is None or situation.environment.stands_in or any(zone.startswith(f"{region}-") for zone in zones):
            continue
        regions = ", ".join(sorted({zone.rpartition("-")[0] for zone in zones}))
        yield case.where, f"{region} has no {_what(case)}", f"regions that have it: {regions}"


def _zone(situation: Situation) -> Iterator[Finding]:
    zone, region = situation.zone, situation.environment.region
    if zone is None or not zone.startswith(f"{region}-"):
        return
    for case in situation.pools:
        here = [each for each in offered(case.shape) or () if each.startswith(f"{region}-")]
        if here and zone not in here:
            yield "encamp.zone", f"{zone} has no {_what(case)}", f"zones of {region} that have it: {', '.join(here)}"


def _one_zone(situation: Situation) -> Iterator[Finding]:
    for case in situation.pools:
        pool = case.pool
        need = "COMPACT placement" if pool.compact else "a reservation" if pool.reservation is not None else None
        if need is None or pool.zone is not None:
            continue
        among = f": one of {', '.join(pool.zones)}" if pool.zones else f", such as {situation.environment.region}-b"
        yield (
            "encamp.zone",
            f"is missing: {need} is in one zone, and {_what(case)} may be in several",
            f"name it{among}",
        )


def _compact_machine(situation: Situation) -> Iterator[Finding]:
    families = data_file("placement")["compact"]["families"]
    for case in situation.pools:
        if case.pool.compact and case.pool.machine_type.partition("-")[0] not in families:
            message = f"{case.pool.machine_type} cannot be placed COMPACT"
            yield case.where, message, f"machines of {', '.join(families)} can; or leave placement out"


def _compact_nodes(situation: Situation) -> Iterator[Finding]:
    most = data_file("placement")["compact"]["mostNodes"]
    for case in situation.pools:
        if case.pool.compact and case.pool.max_nodes > most:
            message = f"{case.pool.max_nodes} machines are more than the {most} of one COMPACT placement"
            yield case.where, message, "ask for fewer replicas, or leave placement out"


def _compact_flex(situation: Situation) -> Iterator[Finding]:
    able = data_file("placement")["compact"]["flexStart"]
    for case in situation.pools:
        family = case.pool.machine_type.rpartition("-")[0]
        if case.pool.compact and case.pool.waits_for_room and family not in able:
            message = f"FLEX_START gives no {case.pool.machine_type} in COMPACT placement"
            yield "encamp.placement", message, f"leave it out, or take machines of {', '.join(able)}"


def _flex_tpu(situation: Situation) -> Iterator[Finding]:
    never = data_file("placement")["noFlexStart"]["tpus"]
    for case in situation.pools:
        if case.pool.waits_for_room and case.shape.tpu_version in never:
            message = f"{case.pool.provisioning} gives no TPU {case.shape.tpu_version}"
            yield "encamp.provisioning", message, "use ON_DEMAND, SPOT or RESERVATION, or a TPU v5e, v5p or v6e"


def way_refused(pool: NodePoolPlan) -> tuple[str, str] | None:
    """Return why a pool's provisioning does not offer its machine, and those that do; None if it does.

    Beliefs: gpu-h100-small-consumption, gpu-a4x-consumption.
    """
    entries = data_file("placement")["consumption"]
    ways = next((each["provisioning"] for each in entries if pool.machine_type in each["machines"]), None)
    if ways is None or pool.provisioning in ways:
        return None
    return f"{pool.provisioning} gives no {pool.machine_type}", f"use {' or '.join(ways)}"


def _consumption(situation: Situation) -> Iterator[Finding]:
    """Yield machines that are asked for in a way in which Google gives none."""
    for case in situation.pools:
        refused = way_refused(case.pool)
        if refused is not None:
            message, hint = refused
            yield "encamp.provisioning", message, f"{hint}{_more_gpus(case)}"


def _more_gpus(case: PoolCase) -> str:
    return ", or take machines with 8 GPUs" if case.pool.machine_type.startswith("a3-highgpu") else ""


def consumption_warnings(pools: Iterable[NodePoolPlan]) -> list[str]:
    """Warn of machines that clients of Google's believe to be given otherwise only."""
    doubted = data_file("placement")["notOnDemand"]["machines"]
    found = sorted({pool.machine_type for pool in pools if pool.provisioning == "ON_DEMAND"} & set(doubted))
    return [
        f"Google may give no {machine} ON_DEMAND: use SPOT, FLEX_START, QUEUED or RESERVATION (encamp.provisioning)"
        for machine in found
    ]


def _slice_size(situation: Situation) -> Iterator[Finding]:
    for case in situation.pools:
        hosts = case.pool.tpu_hosts or 1
        machines = case.pool.max_nodes // (situation.parallel_trials or 1)
        if case.pool.multi_host and machines != hosts:
            message = f"{machines} machines are no slice {case.pool.tpu_topology}: it has {hosts}, all or none"
            yield case.where, message, f"ask for {hosts} replicas of this machine in all"


def _pod_addresses(situation: Situation) -> Iterator[Finding]:
    environment = situation.environment
    if not _WITH_RANGES.isdisjoint(environment.adopt):
        return
    room = ipaddress.IPv4Network(environment.pods_cidr).num_addresses
    # A node's range has twice as many addresses as pods, so that an address rests before it is used again.
    taken = sum(case.pool.max_nodes * 2 * case.pool.max_pods_per_node for case in situation.pools)
    if taken > room:
        nodes = sum(case.pool.max_nodes for case in situation.pools)
        message = f"{nodes} machines take {taken} addresses of pods; podsCidr {environment.pods_cidr} has {room}"
        yield "trainingInput", message, "ask for fewer replicas, or for a wider podsCidr of the environment"


def _node_addresses(situation: Situation) -> Iterator[Finding]:
    environment = situation.environment
    if not _WITH_RANGES.isdisjoint(environment.adopt):
        return
    # The first two and the last two addresses of a subnetwork are Google's.
    room = ipaddress.IPv4Network(environment.subnetwork_cidr).num_addresses - 4
    nodes = sum(case.pool.max_nodes for case in situation.pools)
    if nodes > room:
        message = f"{nodes} machines are more than subnetworkCidr {environment.subnetwork_cidr} has addresses: {room}"
        yield "trainingInput", message, "ask for fewer replicas, or for a wider subnetworkCidr of the environment"


def _one_slice(situation: Situation) -> Iterator[Finding]:
    trials = situation.parallel_trials or 1
    for case in situation.pools:
        if case.pool.multi_host and trials > 1:
            message = f"{trials} trials at a time need {trials} slices {case.pool.tpu_topology}; a pool is one"
            hint = "set maxParallelTrials to 1, or take a slice of one host"
            yield "trainingInput.hyperparameters.maxParallelTrials", message, hint


def _names(situation: Situation) -> Iterator[Finding]:
    trials = situation.parallel_trials is not None
    whole = trial_name(situation.name, LARGEST_TRIAL) if trials else situation.name
    for request in situation.requests:
        name = longest_pod_name(whole, request.role, request.count)
        if len(name) > LONGEST_LABEL:
            message = f"a replica would be called {name}, {len(name)} characters; Kubernetes takes {LONGEST_LABEL}"
            yield "jobId", message, "choose a shorter job id"


def _room(situation: Situation) -> Iterator[Finding]:
    for case in situation.pools:
        try:
            replica_room(case.pool.machine_type, case.pool.accelerator, situation.features)
        except PlanError as error:
            yield case.where, error.what, error.hint or ""


def _cuda(situation: Situation) -> Iterator[Finding]:
    return wrong_cuda(situation.images)


def _architecture(situation: Situation) -> Iterator[Finding]:
    return wrong_architecture(situation.images)


def _tpu_image(situation: Situation) -> Iterator[Finding]:
    return no_tpu_support(situation.images, situation.requirements)


def _what(case: PoolCase) -> str:
    return f"TPU {case.shape.tpu_version}" if case.shape.tpu_version is not None else case.pool.machine_type


PRECONDITIONS: tuple[Precondition, ...] = (
    Precondition("G01", "The region has the TPU or the GPU machine.", "regions.json; each entry's source", _region),
    Precondition("G02", "encamp.zone has the TPU or the GPU machine.", "regions.json; each entry's source", _zone),
    Precondition("G03", "COMPACT placement and reservations are in exactly one zone.", _TOOLKIT, _one_zone),
    Precondition("G04", "The machine can be placed COMPACT.", _COMPACT, _compact_machine),
    Precondition("G05", "At most 1500 machines are placed COMPACT together.", _COMPACT, _compact_nodes),
    Precondition("G06", "FLEX_START places a3-ultragpu and a4 machines COMPACT only.", _TOOLKIT, _compact_flex),
    Precondition("G07", "FLEX_START and QUEUED give no TPU v3 and v4.", _FLEX, _flex_tpu),
    Precondition("G08", "A pool of a slice of several hosts has all of them, and no more.", _TPU, _slice_size),
    Precondition("G09", "The environment has addresses for the pods of every machine.", _RANGES, _pod_addresses),
    Precondition("G10", "The environment has an address for every machine.", _RANGES, _node_addresses),
    Precondition("G11", "The name of every replica has at most 63 characters.", _NAMES, _names),
    Precondition("G12", "Trials on a TPU slice of several hosts run one after the other.", _TPU, _one_slice),
    Precondition("G13", "The machine has room for a replica beside GKE's own pods.", _ROOM, _room),
    Precondition("G14", "A known image has the CUDA that the GPU needs.", _IMAGES, _cuda),
    Precondition("G15", "A known image is for the machine's CPUs.", _IMAGES, _architecture),
    Precondition("G16", "A known image on a TPU is built for TPUs.", _IMAGES, _tpu_image),
    Precondition(
        "G17",
        "H100 machines with fewer than 8 GPUs are SPOT, FLEX_START or QUEUED, a4x ones reserved.",
        _GPUS,
        _consumption,
    ),
)
