"""Reasons why replicas wait for a machine, in plain words: a missing pool, or a mismatch with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.quantity import parse
from encamp.run.watch.usual import usual_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

POOL_LABEL = "cloud.google.com/gke-nodepool"
#: Labels that Google puts on every node itself, of which a pool's own description says nothing.
_OF_EVERY_NODE = ("topology.", "kubernetes.io/", "cloud.google.com/gke-tpu")
_MACHINE_LABEL = "node.kubernetes.io/instance-type"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_GIB = 2.0**30


@dataclass(frozen=True)
class Wait:
    """A reason for which replicas wait.

    Attributes:
        reason: the rest of a sentence about each of them.
        scheduler: what Kubernetes' scheduler says beside that, empty if the reason has it or it says nothing.
    """

    replicas: tuple[str, ...]
    reason: str
    scheduler: str = ""

    def __str__(self) -> str:
        return f"{_names(self.replicas)}: {self.reason}"

    @property
    def in_full(self) -> str:
        """The same with the scheduler's words."""
        return f"{self}{f' (scheduler: {self.scheduler})' if self.scheduler else ''}"


def waiting(
    pods: Iterable[dict[str, Any]],
    events: Sequence[dict[str, Any]],
    pools: Sequence[dict[str, Any]],
    name_of: Callable[[dict[str, Any]], str],
    allocatable: Callable[[str], Mapping[str, float]] | None = None,
) -> list[Wait]:
    """Return each reason for which pods wait, with the replicas that it holds up.

    Args:
        pods: as the API server has them; those that run are left out.
        events: of the namespace, scheduler's and autoscaler's among them.
        pools: node pools as GKE's API lists them.
        name_of: a replica's name.
        allocatable: what a machine type leaves to pods: ``cpu``, ``memory`` in bytes, devices by resource name.
    """
    reasons: dict[str, list[str]] = {}
    scheduler: dict[str, str] = {}
    for pod in pods:
        reason, said = _reason(pod, events, pools, allocatable)
        if reason:
            reasons.setdefault(reason, []).append(name_of(pod))
            scheduler.setdefault(reason, said)
    return [Wait(tuple(names), reason, scheduler[reason]) for reason, names in reasons.items()]


def _reason(
    pod: dict[str, Any],
    events: Sequence[dict[str, Any]],
    pools: Sequence[dict[str, Any]],
    allocatable: Callable[[str], Mapping[str, float]] | None,
) -> tuple[str, str]:
    """Return why a pod waits, empty if it does not, and the scheduler's message beside that."""
    status = pod.get("status", {})
    if status.get("phase") != "Pending" or "deletionTimestamp" in pod["metadata"]:
        return "", ""
    if pod.get("spec", {}).get("nodeName"):
        return _starting(status), ""
    message = _unschedulable(status)
    if message is None:
        return "", ""
    said = [event for event in events if event.get("involvedObject", {}).get("uid") == pod["metadata"]["uid"]]
    mismatch = _mismatch(pod["spec"], pools, allocatable)
    return (f"{mismatch} (scheduler: {message})", "") if mismatch else _added(said, message, usual_wait(pod["spec"]))


def _added(said: list[dict[str, Any]], message: str, usual: str) -> tuple[str, str]:
    """Whether a machine comes, by the autoscaler's words, and the scheduler's beside that."""
    if any(event.get("reason") == "TriggeredScaleUp" for event in said):
        return f"a machine is being added; {usual}", ""
    refused = [event.get("message", "") for event in said if event.get("reason") == "NotTriggerScaleUp"]
    if refused:
        return f"no machine is added: {refused[-1]} (scheduler: {message})", ""
    return f"waits for a machine; {usual}", message


def _starting(status: dict[str, Any]) -> str:
    for container in status.get("containerStatuses") or []:
        state = container.get("state", {}).get("waiting", {})
        if state.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
            return f"{state['reason']}: {state.get('message', 'no details')}"
    return ""


def _unschedulable(status: dict[str, Any]) -> str | None:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", "no details")).strip()
    return None


def _mismatch(
    spec: dict[str, Any],
    pools: Sequence[dict[str, Any]],
    allocatable: Callable[[str], Mapping[str, float]] | None,
) -> str:
    """Return what keeps the pod from every pool, empty if a pool fits."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    wanted = selector.get(POOL_LABEL)
    if wanted is not None and not any(pool["name"] == wanted for pool in pools):
        there = ", ".join(sorted(pool["name"] for pool in pools)) or "none"
        return f"node pool {wanted} is missing in the cluster (there: {there})"
    differences = {
        pool["name"]: _differences(spec, selector, pool, allocatable)
        for pool in pools
        if wanted is None or pool["name"] == wanted
    }
    if not differences:
        return "the cluster has no node pool"
    name, nearest = min(differences.items(), key=lambda item: len(item[1]))
    return f"node pool {name} does not fit: {'; '.join(nearest)}" if nearest else ""


def _differences(
    spec: dict[str, Any],
    selector: dict[str, str],
    pool: dict[str, Any],
    allocatable: Callable[[str], Mapping[str, float]] | None,
) -> list[str]:
    config = pool.get("config", {})
    machine = config.get("machineType", "")
    labels = {**_labels_of_gke(config), **(config.get("labels") or {})}
    labels |= {POOL_LABEL: pool["name"], _MACHINE_LABEL: machine}
    found = [
        f"label {key}={value} is wanted, the pool has {labels.get(key, 'no such label')}"
        for key, value in sorted(selector.items())
        if labels.get(key) != value and (key in labels or not key.startswith(_OF_EVERY_NODE))
    ]
    found += [
        f"taint {taint['key']}={taint.get('value', '')}:{_EFFECTS.get(taint['effect'], taint['effect'])}"
        " is not tolerated"
        for taint in config.get("taints") or []
        if not _tolerated(taint, spec.get("tolerations") or [])
    ]
    if allocatable is not None and machine:
        found += _short(spec, allocatable(machine), machine)
    scaling = pool.get("autoscaling") or {}
    most = scaling.get("totalMaxNodeCount", scaling.get("maxNodeCount"))
    if scaling.get("enabled") and most == 0:
        found.append("its maximum size is 0 nodes")
    return found


def _labels_of_gke(config: dict[str, Any]) -> dict[str, str]:
    """Return labels that GKE gives a pool's nodes for how their machines are got and what these have."""
    found: dict[str, str] = {}
    if config.get("accelerators"):
        found["cloud.google.com/gke-accelerator"] = config["accelerators"][0].get("acceleratorType", "")
    for field, key in (("spot", "cloud.google.com/gke-spot"), ("flexStart", "cloud.google.com/gke-flex-start")):
        if config.get(field):
            found[key] = "true"
    for reservation in (config.get("reservationAffinity") or {}).get("values") or ():
        found["cloud.google.com/reservation-name"] = reservation
    return found


def _tolerated(taint: dict[str, Any], tolerations: list[dict[str, Any]]) -> bool:
    effect = _EFFECTS.get(taint["effect"], taint["effect"])
    if effect == "PreferNoSchedule":
        return True
    return any(
        (not one.get("key") or one["key"] == taint["key"])
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        and one.get("effect") in {None, "", effect}
        for one in tolerations
    )


def _short(spec: dict[str, Any], room: Mapping[str, float], machine: str) -> list[str]:
    if not room:
        return []
    wanted: dict[str, float] = {}
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        for key, text in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            wanted[key] = wanted.get(key, 0.0) + quantity(str(text))
    return [
        f"{_amount(key, value)} wanted, one {machine} leaves {_amount(key, room.get(key, 0.0))}"
        for key, value in sorted(wanted.items())
        if value > room.get(key, 0.0) and (key in {"cpu", "memory"} or "/" in key)
    ]


def quantity(text: str) -> float:
    """Return a Kubernetes quantity (``500m``, ``3Gi``) as a number; 0 for a malformed one."""
    try:
        return float(parse(text))
    except ValueError:
        return 0.0


def _amount(key: str, value: float) -> str:
    return f"{value / _GIB:.2f} GiB of memory" if key == "memory" else f"{value:g} {key}"


def _names(names: Sequence[str]) -> str:
    few = 3
    if len(names) <= few:
        return ", ".join(names)
    return f"{', '.join(names[:few])} and {len(names) - few} more"
