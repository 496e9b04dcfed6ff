"""Reads rendered manifests as the cluster does, and tells in the same words what a plan means."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from encamp.plan.tf_config import cluster_spec, tf_config
from encamp_sandbox.kubelet.expansion import expand, expand_all

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan, NodePoolPlan, ReplicaGroupPlan

SET_UP = ["python3", "/encamp/bootstrap.py", "--"]
INDEX = "ENCAMP_REPLICA_INDEX"
HOME = "/encamp-run"
ACCELERATORS = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator")
JSON_VARIABLES = ("TF_CONFIG", "CLUSTER_SPEC", "CLOUD_ML_JOB")


@dataclass(frozen=True)
class Replica:
    """What the process of one index is given, every reference resolved."""

    words: tuple[list[str] | None, list[str] | None]
    environment: dict[str, Any]


@dataclass(frozen=True)
class Group:
    """What the cluster is told of one role."""

    role: str
    count: int
    image: str
    account: str
    pool: str
    accelerator: str | None
    spot: bool
    tolerates: tuple[str, str, str]
    requests: dict[str, str]
    devices: dict[str, str]
    deadline_seconds: int
    restarts: int
    labels: dict[str, str]
    user: int | None
    folder: str | None
    files: list[tuple[str, str, bool]]
    replicas: list[Replica]


@dataclass(frozen=True)
class ReadJob:
    """What the cluster is told of a job."""

    name: str
    namespace: str
    labels: dict[str, str]
    restarts: int
    packages: list[str]
    speaks_to: dict[str, str]
    groups: list[Group]


def load(text: str) -> Any:
    """Every object of a stream, by the safe loader in C where there is one."""
    return yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read(text: str) -> ReadJob:
    """The job of a stream of manifests."""
    objects = {each["kind"]: each for each in load(text)}
    job_set = objects["JobSet"]
    settings = json.loads(objects["ConfigMap"]["data"]["bootstrap.json"])
    return ReadJob(
        name=job_set["metadata"]["name"],
        namespace=job_set["metadata"]["namespace"],
        labels=job_set["metadata"]["labels"],
        restarts=job_set["spec"]["failurePolicy"]["maxRestarts"],
        packages=settings["packages"],
        speaks_to=_speaks_to(objects["NetworkPolicy"]),
        groups=[_read_group(each) for each in job_set["spec"]["replicatedJobs"]],
    )


def _speaks_to(policy: dict[str, Any]) -> dict[str, str]:
    """The labels of who may reach the replicas, and who the replicas are: the same."""
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]
    labels: dict[str, str] = peer["podSelector"]["matchLabels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    return labels


def looked_at(count: int) -> list[int]:
    """The indexes that are compared: one more digit is all that others could add."""
    return sorted({0, min(1, count - 1), count - 1})


def _read_group(replicated: dict[str, Any]) -> Group:
    job = replicated["template"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    selector = dict(pod["nodeSelector"])
    taint = pod["tolerations"][0]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    assert job["parallelism"] == job["completions"]
    assert limits["memory"]
    assert all(requests[name] == amount for name, amount in limits.items())
    devices = {name: count for name, count in limits.items() if "/" in name}
    return Group(
        role=replicated["name"],
        count=job["completions"],
        image=container["image"],
        account=pod["serviceAccountName"],
        pool=selector["cloud.google.com/gke-nodepool"],
        accelerator=next((selector[key] for key in ACCELERATORS if key in selector), None),
        spot=selector.get("cloud.google.com/gke-spot") == "true",
        tolerates=(taint["key"], taint["value"], taint["effect"]),
        requests={name: each for name, each in requests.items() if name not in devices},
        devices=devices,
        deadline_seconds=job["activeDeadlineSeconds"],
        restarts=job["backoffLimitPerIndex"],
        labels=job["template"]["metadata"]["labels"],
        user=pod["securityContext"].get("runAsUser"),
        folder=container.get("workingDir"),
        files=_files(pod, container),
        replicas=[_started(container, index) for index in looked_at(job["completions"])],
    )


def _files(pod: dict[str, Any], container: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Each mounted bucket: its name, where it is seen, whether it may be read only."""
    volumes = {each["name"]: each["csi"] for each in pod["volumes"] if "csi" in each}
    mounts = [each for each in container["volumeMounts"] if each["name"] in volumes]
    assert all(volumes[each["name"]]["readOnly"] == each["readOnly"] for each in mounts)
    buckets = {name: csi["volumeAttributes"]["bucketName"] for name, csi in volumes.items()}
    return [(buckets[each["name"]], each["mountPath"], each["readOnly"]) for each in mounts]


def _started(container: dict[str, Any], index: int) -> Replica:
    first, deadline, *rest = container["env"]
    assert first["name"] == INDEX
    assert first["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")
    assert deadline["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['encamp-deadline']"
    variables = {INDEX: str(index)}
    for each in rest:
        assert each["name"] not in variables
        variables[each["name"]] = expand(each["value"], variables)
    command, args = container.get("command"), container.get("args")
    words = (
        None if command is None else expand_all(command, variables),
        None if args is None else expand_all(args, variables),
    )
    del variables[INDEX]
    return Replica(words, _parsed(variables))


def meant(plan: JobPlan) -> ReadJob:
    """The same of a plan."""
    pools = {pool.name: pool for pool in plan.node_pools}
    return ReadJob(
        name=plan.name,
        namespace=plan.namespace,
        labels=dict(plan.labels),
        restarts=plan.limits.max_restarts,
        packages=next((list(group.package_uris) for group in plan.groups if group.package_uris), []),
        speaks_to={"encamp-job": plan.name},
        groups=[_meant_group(plan, group, pools[group.node_pool]) for group in plan.groups],
    )


def _meant_group(plan: JobPlan, group: ReplicaGroupPlan, pool: NodePoolPlan) -> Group:
    resources = group.resources
    return Group(
        role=group.role.value,
        count=group.count,
        image=group.image,
        account=plan.identity.kubernetes_service_account,
        pool=pool.name,
        accelerator=pool.accelerator.type if pool.accelerator else None,
        spot=pool.spot,
        tolerates=pool.taint,
        requests={"cpu": f"{resources.cpu_millis}m", "memory": f"{resources.memory_mib}Mi"},
        devices={name: str(count) for name, count in resources.devices.items()},
        deadline_seconds=plan.limits.active_deadline_seconds,
        restarts=plan.limits.max_replica_restarts,
        labels={**plan.labels, "encamp-role": group.role.value},
        user=65532 if group.non_root else None,
        folder=None if group.interpreter is None else HOME if group.non_root else "/",
        files=[(mount.bucket, mount.path, mount.read_only) for mount in plan.storage.mounts],
        replicas=[_meant_replica(plan, group, index) for index in looked_at(group.count)],
    )


def _meant_replica(plan: JobPlan, group: ReplicaGroupPlan, index: int) -> Replica:
    command = None if group.command is None else list(group.command)
    if group.interpreter is not None:
        command = [*SET_UP, *(command or [])]
    home = {"HOME": HOME, "LOGNAME": "trainer", "USER": "trainer"} if group.non_root else {}
    # Where the set-up of several machines with RDMA finds NCCL's plugin.
    plugin = {"ENCAMP_NCCL_PLUGIN": "/usr/local/gib"} if group.rdma_nics and group.interpreter is not None else {}
    environment = {**home, **plugin, **_parsed(group.env), "TF_CONFIG": _plain(tf_config(plan, group, index))}
    if group.custom_container:
        environment["CLUSTER_SPEC"] = _plain(cluster_spec(plan, group, index))
    return Replica((command, None if group.args is None else list(group.args)), environment)


def _parsed(variables: Any) -> dict[str, Any]:
    return {name: json.loads(value) if name in JSON_VARIABLES else value for name, value in variables.items()}


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(data))
    return plain
