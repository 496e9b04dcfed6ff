"""The largest demand of an environment's queues on its region's quotas and addresses, if every quota is used."""

from __future__ import annotations

import ipaddress
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.plan.environment.queues import FLAVOR_LABEL
from encamp.plan.environment.shared_pools import MOST_NODES, quota_pools
from encamp.plan.machines.quotas import QuotaNeed, pool_quotas
from encamp.spec.environment.vpc import VpcSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec

#: Addresses of a subnetwork that are Google's.
_RESERVED_ADDRESSES = 4
#: Ports of one address of Cloud NAT. Belief: ``nat-ports-per-address``.
_PORTS_OF_ADDRESS = 64_512


@dataclass(frozen=True)
class QueueLimits:
    """The most that jobs of the queues may use at once.

    Attributes:
        needs: of quotas of Google Cloud, by name.
        unlimited: kinds of machines whose number no quota of a queue limits; they are not in ``needs``.
        nodes: how many machines.
    """

    needs: tuple[QuotaNeed, ...]
    unlimited: tuple[str, ...]
    nodes: int


def queue_limits(environment: EnvironmentSpec) -> QueueLimits:
    """Return the most that the queues of an environment may use at once. Pools of one kind draw on the same quotas."""
    kinds: dict[str, list[NodePoolPlan]] = defaultdict(list)
    for pool in quota_pools(environment):
        kinds[pool.labels[FLAVOR_LABEL]].append(pool)
    unlimited = sorted(kind for kind, pools in kinds.items() if any(pool.max_nodes == MOST_NODES for pool in pools))
    limited = [pools for kind, pools in sorted(kinds.items()) if kind not in unlimited]
    nodes = sum(max(pool.max_nodes for pool in pools) for pools in limited)
    total: dict[str, QuotaNeed] = {}
    for pools in limited:
        for name, need in _most(pools, environment.region).items():
            known = total.get(name)
            total[name] = need if known is None else replace(need, amount=need.amount + known.amount)
    addresses = _nat_addresses(environment, nodes)
    if addresses is not None:
        total[addresses.name] = addresses
    return QueueLimits(tuple(total[name] for name in sorted(total)), tuple(unlimited), nodes)


def address_problems(environment: EnvironmentSpec, nodes: int, pods_per_node: int) -> list[str]:
    """Return ranges of the environment that are too small for so many machines.

    None of ranges that it did not choose.
    """
    if {"network", "cluster"} & set(environment.adopt):
        return []
    room = ipaddress.IPv4Network(environment.subnetwork_cidr).num_addresses - _RESERVED_ADDRESSES
    pods = ipaddress.IPv4Network(environment.pods_cidr).num_addresses
    found = []
    if nodes > room:
        found.append(f"subnetworkCidr {environment.subnetwork_cidr} has addresses for {room} machines, not for {nodes}")
    # A node's range has twice as many addresses as pods, so that an address rests before it is used again.
    if nodes * 2 * pods_per_node > pods:
        most = pods // (2 * pods_per_node)
        found.append(f"podsCidr {environment.pods_cidr} has addresses for the pods of {most} machines, not of {nodes}")
    return found


def _most(pools: list[NodePoolPlan], region: str) -> Mapping[str, QuotaNeed]:
    """Return the largest need of each quota by pools of which one or another is used, or a mixture."""
    found: dict[str, QuotaNeed] = {}
    for pool in pools:
        for need in pool_quotas(pool, region):
            if need.name not in found or found[need.name].amount < need.amount:
                found[need.name] = need
    return found


def _nat_addresses(environment: EnvironmentSpec, nodes: int) -> QuotaNeed | None:
    """Return external addresses of Cloud NAT, which has as many as its machines need ports."""
    if {"network", "cluster"} & set(environment.adopt) or not nodes:
        return None
    ports = (environment.vpc or VpcSpec()).nat_ports_per_machine
    return QuotaNeed("IN_USE_ADDRESSES", environment.region, math.ceil(nodes * ports / _PORTS_OF_ADDRESS))
