"""What a truthful Google shows of a rung's job, for probes to be tried on; and the same with a lie in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from encamp.acceptance.cases import INSIDE, JobCase
from encamp.acceptance.ladder import LADDER
from encamp.acceptance.rung_jobs import plan_rung
from encamp.acceptance.sightings import Sightings
from encamp.acceptance.watcher import EVENTS, JOB_SETS, LEASES, NODES, PODS, POOLS, SYSTEM_PODS, WORKLOADS
from encamp.ci.preview import Previewed
from encamp.plan.environment.gke import node_features
from encamp.plan.machines.allocatable import allocatable
from encamp.plan.machines.rdma import node_features_of
from encamp.plan.machines.system_pods import device_features, system_pods
from encamp.run.store.outputs import EnvironmentOutputs
from encamp.run.store.states import State
from encamp.spec.environment import load_environment
from encamp_sandbox.kubelet.system_pods import pod_object
from encamp_sandbox.lies.front import shown_by
from encamp_sandbox.lies.model import Asked, Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.acceptance.ladder import Rung
    from encamp.plan.model import JobPlan, NodePoolPlan
    from encamp_sandbox.lies.model import Lie

REPOSITORY = Path(__file__).resolve().parents[2]
SPEC = load_environment("acceptance", REPOSITORY)
OUTPUTS = EnvironmentOutputs("", SPEC.cluster, SPEC.region, SPEC.project, SPEC.artifacts_bucket, SPEC.namespace)
BEGAN = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
RUNGS = {rung.name: rung for rung in LADDER}
#: As Kubernetes' API calls what sightings call otherwise.
RESOURCES = {
    NODES: "nodes",
    PODS: "pods",
    SYSTEM_PODS: "pods",
    EVENTS: "events",
    LEASES: "leases",
    WORKLOADS: "workloads",
    JOB_SETS: "jobsets",
}
CONTAINER = f"/container/v1/projects/{SPEC.project}/locations/{SPEC.region}"


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, seconds: float, reason: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at(seconds)}


class Evidence:
    """Of one rung's job, told by Google or by a liar."""

    def __init__(self, name: str, lie: Lie | None = None) -> None:
        self.rung: Rung = RUNGS[name]
        self.lie = lie
        self.plan: JobPlan = plan_rung(self.rung, SPEC, f"acceptance_{name.replace('-', '_')}_run")
        self.replicas = [(group, index) for group in self.plan.groups for index in range(group.count)]
        self.sightings = Sightings()

    def case(self) -> JobCase:
        self._note(0, PODS, [self.pod(number, waits=True) for number in range(len(self.replicas))])
        self._note(0, JOB_SETS, [self.job_set(suspended=True)])
        self._note(0, WORKLOADS, [self.workload(admitted=False)])
        self._note(1, WORKLOADS, [self.workload(admitted=True)])
        self._note(2, JOB_SETS, [self.job_set(suspended=False)])
        self._note(3, EVENTS, [*self.triggered(), self.not_triggered()])
        for seconds in (40, 80):
            self._note(seconds, NODES, [self.node(number) for number in range(len(self.replicas))])
            self._note(seconds, LEASES, [self.lease(number, seconds) for number in range(len(self.replicas))])
            self._note(seconds, PODS, [self.pod(number, waits=False) for number in range(len(self.replicas))])
            self._note(seconds, SYSTEM_PODS, list(self.system_pods()))
        self.sightings.note(POOLS, [{"name": pool.name} for pool in self.plan.node_pools], 40)
        return JobCase(
            rung=self.rung,
            environment=SPEC,
            plan=self.plan,
            outputs=OUTPUTS,
            client=SimpleNamespace(request=lambda *_, **__: SimpleNamespace(status_code=404)),  # type: ignore[arg-type]
            state=min(self.rung.ends),
            times={State.RUNNING: BEGAN},
            sightings=self.sightings,
            refused={},
            receipt={"resources": [{}], "left": []},
            logs=dict(self.logs()),
            operations=tuple(
                self._rest("GET", f"{CONTAINER}/operations", {"operations": self.operations()})["operations"]
            ),
            lines=tuple(self._rest("POST", "/logging/v2/entries:list", {"entries": self.lines()})["entries"]),
            preview=Previewed((), 14) if self.rung.previews else None,
        )

    def _note(self, seconds: float, kind: str, items: list[dict[str, Any]]) -> None:
        body = json.dumps({"kind": "List", "items": items}).encode()
        if self.lie is not None and self.lie.objects:
            body = shown_by([self.lie], f"/api/v1/{RESOURCES[kind]}", body)
        self.sightings.note(kind, json.loads(body)["items"], (BEGAN + timedelta(seconds=seconds)).timestamp())

    def _rest(self, method: str, path: str, data: dict[str, Any]) -> Any:
        asked, told = Asked(method, path, {}, {}), Told(200, {}, json.dumps(data).encode())
        if self.lie is not None and self.lie.tells is not None and self.lie.is_about(asked):
            told = self.lie.tells(asked, told)
        return told.json

    def pool(self, number: int) -> NodePoolPlan:
        name = self.replicas[number][0].node_pool
        return next(pool for pool in self.plan.node_pools if pool.name == name)

    def node_name(self, number: int) -> str:
        return f"gke-{SPEC.cluster}-{self.pool(number).name[:24]}-00c0ffee-{number:04}"

    def node(self, number: int) -> dict[str, Any]:
        pool = self.pool(number)
        offered = allocatable(pool.machine_type, pool.accelerator)
        labels = {
            "cloud.google.com/gke-nodepool": pool.name,
            "node.kubernetes.io/instance-type": pool.machine_type,
            "cloud.google.com/machine-family": pool.machine_type.partition("-")[0],
            "topology.kubernetes.io/region": SPEC.region,
            "topology.kubernetes.io/zone": f"{SPEC.region}-a",
            "iam.gke.io/gke-metadata-server-enabled": "true",
            "cloud.google.com/gke-provisioning": "spot" if pool.spot else "standard",
        }
        taints = [{"key": pool.taint[0], "value": pool.taint[1], "effect": pool.taint[2]}]
        if pool.spot:
            labels["cloud.google.com/gke-spot"] = "true"
        if pool.accelerator is not None:
            labels["cloud.google.com/gke-accelerator"] = pool.accelerator.type
            taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
        name = self.node_name(number)
        kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
        return {
            "metadata": {"uid": f"node-{number}", "name": name, "labels": labels, "creationTimestamp": at(30)},
            "spec": {"providerID": f"gce://{SPEC.project}/{SPEC.region}-a/{name}", "taints": taints},
            "status": {
                "allocatable": {
                    "cpu": f"{offered.cpu_millis}m",
                    "memory": f"{offered.memory_mib}Mi",
                    **{key: str(count) for key, count in offered.devices.items()},
                },
                "conditions": [condition("Ready", "True", 35), *(condition(kind, "False", 35) for kind in kinds)],
            },
        }

    def lease(self, number: int, seconds: float) -> dict[str, Any]:
        metadata = {"uid": f"lease-{number}", "name": self.node_name(number)}
        return {"metadata": metadata, "spec": {"leaseDurationSeconds": 40, "renewTime": at(seconds - 5)}}

    def pod_name(self, number: int) -> str:
        group, index = self.replicas[number]
        return f"{self.plan.name}-{group.role.value}-0-{index}-abcde"

    def pod(self, number: int, *, waits: bool) -> dict[str, Any]:
        metadata = {"uid": f"pod-{number}", "name": self.pod_name(number), "creationTimestamp": at(0)}
        if waits:
            return {"metadata": metadata, "spec": {}, "status": {"conditions": [_unscheduled()]}}
        state = {"terminated": {"startedAt": at(50), "exitCode": 0}}
        return {
            "metadata": metadata,
            "spec": {"nodeName": self.node_name(number)},
            "status": {
                "conditions": [condition("PodScheduled", "True", 40)],
                "containerStatuses": [{"name": "replica", "state": state}],
            },
        }

    def system_pods(self) -> Iterable[dict[str, Any]]:
        for number in range(len(self.replicas)):
            pool = self.pool(number)
            features = node_features_of(pool, node_features(SPEC))
            devices = device_features(allocatable(pool.machine_type, pool.accelerator).devices)
            for pod in system_pods({*features, *devices}):
                yield pod_object(pod, self.node_name(number))

    def triggered(self) -> Iterable[dict[str, Any]]:
        message = "pod triggered scale-up: [{https://…/gke-encamp-grp 0->2 (max: 2)}]"
        for number in range(len(self.replicas)):
            involved = {"uid": f"pod-{number}", "name": self.pod_name(number)}
            yield {
                "metadata": {"uid": f"event-{number}"},
                "involvedObject": involved,
                "reason": "TriggeredScaleUp",
                "message": message,
            }

    def not_triggered(self) -> dict[str, Any]:
        message = "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector"
        involved = {"uid": "misfit", "name": f"{self.plan.name}-misfit"}
        return {
            "metadata": {"uid": "event-no"},
            "involvedObject": involved,
            "reason": "NotTriggerScaleUp",
            "message": message,
        }

    def job_set(self, *, suspended: bool) -> dict[str, Any]:
        conditions = [condition("Suspended", str(suspended), 0 if suspended else 2)]
        metadata = {"uid": "set", "name": self.plan.name}
        return {"metadata": metadata, "spec": {"suspend": suspended}, "status": {"conditions": conditions}}

    def workload(self, *, admitted: bool) -> dict[str, Any]:
        sets = [{"name": group.role.value, "count": group.count} for group in self.plan.groups]
        conditions = [condition("Admitted", "True", 1)] if admitted else []
        return {
            "metadata": {"uid": "workload", "name": "jobset-x"},
            "spec": {"podSets": sets},
            "status": {"conditions": conditions},
        }

    def operations(self) -> list[dict[str, Any]]:
        link = f"https://container.googleapis.com/v1/{OUTPUTS.cluster_path}/nodePools/{self.plan.node_pools[0].name}"
        return [
            {
                "operationType": f"{kind}_NODE_POOL",
                "status": "DONE",
                "targetLink": link,
                "startTime": at(0),
                "endTime": at(60),
            }
            for kind in ("CREATE", "DELETE")
        ]

    def logs(self) -> Iterable[tuple[str, str]]:
        text = f"{INSIDE}{json.dumps(self.inside())}\nthe replica ends as it should\n"
        for group, index in self.replicas:
            yield f"{group.role.value}-replica-{index}", text

    def inside(self) -> dict[str, Any]:
        said = {
            "instance/service-accounts/default/email": self.plan.identity.service_account
            or f"{SPEC.project}.svc.id.goog",
            "instance/attributes/cluster-name": SPEC.cluster,
            "instance/attributes/cluster-location": SPEC.region,
            "instance/zone": f"projects/12345/zones/{SPEC.region}-a",
            "project/project-id": SPEC.project,
        }
        accelerators = (
            {"accelerators": '{"nvidia.com/gpu": 1}'} if self.plan.node_pools[0].accelerator else {"accelerators": ""}
        )
        return {
            "metadata": {path: {"status": 200, "text": text} for path, text in said.items()},
            "without flavor": 403,
            "token": {"status": 200, "text": '{"token_type": "Bearer", "expires_in": 3599}'},
            "peers": {"master": "10.8.0.2"},
            "GPUs": [],
            "nvidia-smi": "",
            **accelerators,
        }

    def lines(self) -> list[dict[str, Any]]:
        return [self._line(number, text) for number, (_, log) in enumerate(self.logs()) for text in log.splitlines()]

    def _line(self, number: int, text: str) -> dict[str, Any]:
        labels = {
            "project_id": SPEC.project,
            "location": SPEC.region,
            "cluster_name": SPEC.cluster,
            "namespace_name": SPEC.namespace,
            "pod_name": self.pod_name(number),
            "container_name": "replica",
        }
        return {
            "logName": f"projects/{SPEC.project}/logs/stdout",
            "resource": {"type": "k8s_container", "labels": labels},
            "labels": {
                "k8s-pod/encamp-job": self.plan.name,
                "compute.googleapis.com/resource_name": self.node_name(number),
            },
            "severity": "INFO",
            "timestamp": at(60),
            "receiveTimestamp": at(62),
            "textPayload": text,
        }


def _unscheduled() -> Mapping[str, Any]:
    return condition("PodScheduled", "False", 0, "Unschedulable")
