"""Decisions of the cluster autoscaler: the number of nodes of each pool that pending pods need. Pure.

Source of the words: k8s.io/autoscaler/cluster-autoscaler (events TriggeredScaleUp and NotTriggerScaleUp).

Beliefs: autoscaler-grows-from-zero, autoscaler-says-triggered, autoscaler-says-not-triggered,
autoscaler-adds-one-node-per-pod, autoscaler-tpu-slice-is-atomic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp_sandbox.kubelet import fit, provisioning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from encamp_sandbox.kubelet.pools import Pool

_FULL = "max node group size reached"


@dataclass
class ScalePlan:
    """The decision about pending pods.

    Attributes:
        add: how many nodes a pool is to get, by its full name.
        triggered: the pool that each pod (by UID) grows.
        unschedulable: why no pool can grow for a pod (by UID), in the autoscaler's words.
    """

    add: Counter[str] = field(default_factory=Counter)
    triggered: dict[str, Pool] = field(default_factory=dict)
    unschedulable: dict[str, str] = field(default_factory=dict)


def waits(pod: Mapping[str, Any]) -> bool:
    """Whether the scheduler has found no node for a pod."""
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def plan(
    waiting: Sequence[Mapping[str, Any]],
    pools: Sequence[Pool],
    sizes: Mapping[str, int],
    fresh: Sequence[tuple[Pool, dict[str, Fraction]]],
    claimed: Mapping[str, Mapping[str, int]] | None = None,
) -> ScalePlan:
    """Decide for each waiting pod.

    Args:
        waiting: the pods, in the order in which they are served.
        pools: every node pool there is.
        sizes: nodes that each pool has now, by its full name.
        fresh: nodes that have just come, with what is free on them: the scheduler has not used them yet.
        claimed: devices that pods (by UID) claim, by class.
    """
    done = ScalePlan()
    places = list(fresh)
    for pod in waiting:
        devices = (claimed or {}).get(pod["metadata"]["uid"], {})
        if any(_placed(pod, pool, left, devices) for pool, left in places):
            continue
        reasons: Counter[str] = Counter()
        best: Pool | None = None
        for pool in pools:
            reason = fit.obstacle(pod, pool.labels, pool.taints, pool.free(), devices)
            if reason is None:
                reason = provisioning.refusal(pod, pool)
            if reason is None and (
                not pool.autoscaled or sizes.get(pool.full_name, 0) + done.add[pool.full_name] >= pool.maximum
            ):
                reason = _FULL
            if reason is None:
                best = pool if best is None or _waste(pool) < _waste(best) else best
            else:
                reasons[reason] += 1
        uid = pod["metadata"]["uid"]
        if best is None:
            counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            done.unschedulable[uid] = f"pod didn't trigger scale-up: {counted or 'the cluster has no node pool'}"
            continue
        room = best.maximum - sizes.get(best.full_name, 0) - done.add[best.full_name]
        count = room if best.atomic else 1
        new = [(best, best.free()) for _ in range(count)]
        done.add[best.full_name] += count
        done.triggered[uid] = best
        fit.take(new[0][1], pod, devices)
        places.extend(new)
    return done


def _placed(pod: Mapping[str, Any], pool: Pool, left: dict[str, Fraction], devices: Mapping[str, int]) -> bool:
    if fit.obstacle(pod, pool.labels, pool.taints, left, devices) is not None:
        return False
    fit.take(left, pod, devices)
    return True


def _waste(pool: Pool) -> tuple[Fraction, str]:
    return pool.free()["cpu"], pool.name
