"""The templates' views of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.cost.bill import pod_labels
from encamp.plan.egress import METADATA, RESOLVERS, WEB_PORTS
from encamp.plan.environment.queues import FLAVOR_LABEL
from encamp.plan.job_queue import asks_for_machines, queue_annotations, queue_labels
from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE
from encamp.plan.machines.rdma import device_class, plugin_folder, plugin_image
from encamp.plan.machines.room import SIDECAR
from encamp.plan.manifests.containers import compact_json
from encamp.plan.manifests.failure_policy import job_set_rules, pod_failure_rules
from encamp.plan.manifests.model import (
    AccountView,
    ClaimView,
    EgressView,
    FilesView,
    GroupView,
    JobSetView,
    MountView,
    PolicyView,
    RdmaView,
    RequestView,
)
from encamp.plan.manifests.pod_security import NON_ROOT_ID, container_security, init_security, pod_security
from encamp.plan.manifests.words import RUN_MOUNT, arguments, escaped_words, variables
from encamp.plan.model import JOB_LABEL
from encamp.plan.names import PORT
from encamp.plan.study import METRIC_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.manifests.mounts import MountPlan
    from encamp.plan.model import JobPlan, NodePoolPlan, ReplicaGroupPlan
    from encamp.plan.study import StudyPlan

#: Label with the role of a job's pods.
ROLE_LABEL = "encamp-role"
#: Keys of a study's object.
STUDY_FILE = "study.json"
TEMPLATE_FILE = "trial.json"
BOOTSTRAP_MOUNT = "/encamp"
TERMINATION_PATH = f"{RUN_MOUNT}/termination-log"
#: Says that the replica runs what its image holds, so that a runtime without images can refuse it.
RUNS_IMAGE_ANNOTATION = "encamp.dev/runs-image"
#: Label of every node, and taint of those with Arm CPUs: GKE's page of Arm workloads.
_ARCHITECTURE_KEY, _USUAL_ARCHITECTURE = "kubernetes.io/arch", "amd64"
#: Labels and taints of GKE's nodes, by how they were got.
_POOL_KEY = "cloud.google.com/gke-nodepool"
SPOT_KEY = "cloud.google.com/gke-spot"
FLEX_START_KEY = "cloud.google.com/gke-flex-start"
QUEUED_KEY = "cloud.google.com/gke-queued"
PROVISIONING_CLASS = "queued-provisioning.gke.io"
#: Keeps other jobs off the nodes of a slice, and the hosts of one slice together.
EXCLUSIVE_ANNOTATION = "alpha.jobset.sigs.k8s.io/exclusive-topology"
#: Asks for GKE's sidecar of Cloud Storage FUSE, with as much of its machine as it can use.
_FUSE = "gke-gcsfuse"
#: Between SIGTERM and SIGKILL. TensorFlow's workers swallow SIGTERM when their chief is gone.
GRACE_SECONDS = 30


def account_view(plan: JobPlan) -> AccountView:
    """Return the service account of a job."""
    identity = plan.identity
    name = identity.kubernetes_service_account
    return AccountView(name, plan.namespace, plan.labels, identity.service_account)


def config_map_name(plan: JobPlan) -> str:
    """Return the name of the ConfigMap of a job."""
    return f"{plan.name}-bootstrap"


def files_view(plan: JobPlan, script: str) -> FilesView:
    """Return the bootstrap script and what it is to set up."""
    packages = next((list(group.package_uris) for group in plan.groups if group.package_uris), [])
    settings: dict[str, Any] = {
        "packages": packages,
        "pythonVersion": plan.python_version,
        "runDirectory": RUN_MOUNT,
        "runtimeVersion": plan.runtime_version,
        "terminationMessage": TERMINATION_PATH,
    }
    if plan.requirements:
        settings["requirements"] = list(plan.requirements)
    data = {"bootstrap.json": compact_json(settings) + "\n", "bootstrap.py": script}
    return FilesView(config_map_name(plan), plan.namespace, plan.labels, data)


def study_view(plan: JobPlan, study: StudyPlan, job_set: Mapping[str, Any]) -> FilesView:
    """Return the object that a study's trials belong to.

    What is searched for, and the JobSet that trials are made from.
    """
    data = {STUDY_FILE: compact_json(study.to_json()) + "\n", TEMPLATE_FILE: compact_json(job_set) + "\n"}
    return FilesView(plan.name, plan.namespace, plan.labels, data)


def claim_template_name(plan: JobPlan, count: int) -> str:
    """Return the name of the template of claims of so many network interfaces."""
    return f"{plan.name}-rdma-{count}"


def claim_views(plan: JobPlan) -> list[ClaimView]:
    """Return the templates of replicas' claims: one for each number of network interfaces."""
    counts = sorted({group.rdma_nics for group in plan.groups if group.rdma_nics})
    return [
        ClaimView(claim_template_name(plan, count), plan.namespace, plan.labels, device_class(), count)
        for count in counts
    ]


def job_set_view(plan: JobPlan) -> JobSetView:
    """Return the JobSet of a job; of a study, the one that its trials are made from."""
    scheduling = plan.training_input.get("scheduling") or {}
    whole_job = bool(scheduling.get("resilient_to_worker_restart"))
    return JobSetView(
        name=plan.name,
        namespace=plan.namespace,
        labels={**plan.labels, **queue_labels(plan)},
        annotations=queue_annotations(plan),
        max_restarts=plan.limits.max_restarts,
        failure_rules=job_set_rules(whole_job=whole_job),
        active_deadline_seconds=plan.limits.active_deadline_seconds,
        service_account=plan.identity.kubernetes_service_account,
        grace_seconds=GRACE_SECONDS,
        port=PORT,
        bootstrap_mount=BOOTSTRAP_MOUNT,
        run_mount=RUN_MOUNT,
        config_map=config_map_name(plan),
        mounts=_mounts(plan),
        groups=[_group(plan, group, whole_job=whole_job) for group in plan.groups],
    )


def _group(plan: JobPlan, group: ReplicaGroupPlan, *, whole_job: bool) -> GroupView:
    pool = next(pool for pool in plan.node_pools if pool.name == group.node_pool)
    devices = {name: str(count) for name, count in group.resources.devices.items()}
    amounts = {"cpu": f"{group.resources.cpu_millis}m", "memory": f"{group.resources.memory_mib}Mi"}
    return GroupView(
        role=group.role.value,
        count=group.count,
        labels={**_bill(plan, pool), **plan.labels, ROLE_LABEL: group.role.value},
        annotations=_annotations(plan, group, pool),
        job_annotations={EXCLUSIVE_ANNOTATION: _POOL_KEY} if pool.multi_host else {},
        pod_security=pod_security(non_root=group.non_root),
        container_security=container_security(non_root=group.non_root, locked_memory=group.locked_memory),
        replica_restarts=plan.limits.max_replica_restarts,
        pod_failure_rules=pod_failure_rules(custom_container=group.custom_container, whole_job=whole_job),
        node_selector=_node_selector(pool),
        tolerations=_tolerations(pool, devices),
        image=group.image,
        command=escaped_words(_with_set_up(group)),
        args=arguments(plan, group),
        working_dir=_working_dir(group),
        env=variables(plan, group),
        requests={**amounts, **devices},
        limits={"memory": amounts["memory"], **devices},
        shared_memory=f"{group.shared_memory_mib}Mi",
        termination_path=_termination_path(plan, group),
        rdma=_rdma(plan, group, pool),
        init_security=init_security(),
    )


def _rdma(plan: JobPlan, group: ReplicaGroupPlan, pool: NodePoolPlan) -> RdmaView | None:
    if not group.rdma_nics:
        return None
    return RdmaView(claim_template_name(plan, group.rdma_nics), plugin_image(pool.architecture), plugin_folder())


def _bill(plan: JobPlan, pool: NodePoolPlan) -> Mapping[str, str]:
    """Return billing labels for replicas whose machines do not carry them."""
    return {} if pool.shared_in is None else pod_labels(plan.bill_labels)[0]


def _termination_path(plan: JobPlan, group: ReplicaGroupPlan) -> str:
    """Return the path of the termination message: the set-up's, or without a set-up the last metrics of a trial."""
    return METRIC_FILE if plan.study is not None and group.interpreter is None else TERMINATION_PATH


def _working_dir(group: ReplicaGroupPlan) -> str | None:
    """Return the working directory: ``/`` as on AI Platform, or a folder that the trainer may write to."""
    if group.interpreter is None:
        return None
    return RUN_MOUNT if group.non_root else "/"


def _with_set_up(group: ReplicaGroupPlan) -> Sequence[str] | None:
    """Return the command, preceded by the script that installs packages and writes the termination message, if any."""
    if group.interpreter is None or group.command is None:
        return group.command
    return ("python3", f"{BOOTSTRAP_MOUNT}/bootstrap.py", "--", *group.command)


def _node_selector(pool: NodePoolPlan) -> dict[str, str]:
    selector = {_POOL_KEY: pool.name}
    if pool.tpu_topology is not None and pool.accelerator is not None:
        selector["cloud.google.com/gke-tpu-accelerator"] = pool.accelerator.type
        selector["cloud.google.com/gke-tpu-topology"] = pool.tpu_topology
    elif pool.accelerator is not None:
        selector["cloud.google.com/gke-accelerator"] = pool.accelerator.type
    if pool.architecture != _USUAL_ARCHITECTURE:
        selector[_ARCHITECTURE_KEY] = pool.architecture
    if pool.spot:
        selector[SPOT_KEY] = "true"
    if pool.waits_for_room:
        selector[FLEX_START_KEY] = "true"
    if pool.reservation is not None:
        selector["cloud.google.com/reservation-name"] = pool.reservation
    if FLAVOR_LABEL in pool.labels:
        selector[FLAVOR_LABEL] = pool.labels[FLAVOR_LABEL]
    return selector


def _tolerations(pool: NodePoolPlan, devices: Mapping[str, str]) -> list[dict[str, str]]:
    key, value, effect = pool.taint
    tolerations = [{"key": key, "operator": "Equal", "value": value, "effect": effect}]
    tolerations.extend(
        {"key": device, "operator": "Exists", "effect": "NoSchedule"}
        for device in (GPU_RESOURCE, TPU_RESOURCE)
        if device in devices
    )
    if pool.architecture != _USUAL_ARCHITECTURE:
        arm = {"key": _ARCHITECTURE_KEY, "operator": "Equal", "value": pool.architecture, "effect": "NoSchedule"}
        tolerations.append(arm)
    taints = {SPOT_KEY: pool.spot, FLEX_START_KEY: pool.waits_for_room, QUEUED_KEY: pool.provisioning == "QUEUED"}
    tolerations.extend(
        {"key": key, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        for key, tainted in taints.items()
        if tainted
    )
    return tolerations


def _annotations(plan: JobPlan, group: ReplicaGroupPlan, pool: NodePoolPlan) -> dict[str, str]:
    """Return annotations of a role's pods."""
    found: dict[str, str] = {}
    if group.interpreter is None:
        found[RUNS_IMAGE_ANNOTATION] = "true"
    if plan.storage.mounts:
        found |= _fuse_annotations()
    if asks_for_machines(plan, pool):
        found["autoscaling.x-k8s.io/consume-provisioning-request"] = request_name(plan, group)
        found["autoscaling.x-k8s.io/provisioning-class-name"] = PROVISIONING_CLASS
    return found


def _fuse_annotations() -> dict[str, str]:
    """Return annotations for the sidecar of mounted buckets; a replica's request leaves room for it.

    Source: GKE's page of the Cloud Storage FUSE driver's sidecar; a limit of 0 is none.
    """
    return {
        f"{_FUSE}/volumes": "true",
        f"{_FUSE}/cpu-request": f"{SIDECAR.cpu_millis}m",
        f"{_FUSE}/cpu-limit": "0",
        f"{_FUSE}/memory-request": f"{SIDECAR.memory_mib}Mi",
        f"{_FUSE}/memory-limit": "0",
        f"{_FUSE}/ephemeral-storage-request": "1Gi",
        f"{_FUSE}/ephemeral-storage-limit": "0",
    }


def _mounts(plan: JobPlan) -> list[MountView]:
    non_root = any(group.non_root for group in plan.groups)
    return [_mount(index, mount, non_root=non_root) for index, mount in enumerate(plan.storage.mounts)]


def _mount(index: int, mount: MountPlan, *, non_root: bool) -> MountView:
    options = list(mount.options)
    if non_root and not any(option.startswith(("uid=", "gid=")) for option in options):
        # Files belong to root else. Root of a container may use them whomever they belong to.
        options += [f"uid={NON_ROOT_ID}", f"gid={NON_ROOT_ID}"]
    attributes = {"bucketName": mount.bucket, "mountOptions": ",".join(options)}
    if mount.folder:
        # The driver looks whether the whole bucket can be listed, which who may use a folder of it need not be able to.
        attributes["skipCSIBucketAccessCheck"] = "true"
    return MountView(f"bucket-{index}", mount.path, mount.read_only, attributes)


def policy_view(plan: JobPlan) -> PolicyView:
    """Return the network policy of a job."""
    reached = plan.egress
    egress = EgressView(RESOLVERS, METADATA, WEB_PORTS, reached.closed, reached.opened) if reached is not None else None
    return PolicyView(plan.name, plan.namespace, plan.labels, {JOB_LABEL: plan.labels[JOB_LABEL]}, egress)


def request_name(plan: JobPlan, group: ReplicaGroupPlan) -> str:
    """Return the name of the request for a role's machines, and of the pod template that it asks for."""
    return f"{plan.name}-{group.role.value}"


def request_views(plan: JobPlan) -> list[RequestView]:
    """Return requests to GKE for roles with queued provisioning: each role's machines all at once."""
    queued = {pool.name: pool for pool in plan.node_pools if asks_for_machines(plan, pool)}
    return [
        RequestView(
            name=request_name(plan, group),
            namespace=plan.namespace,
            labels=plan.labels,
            provisioning_class=PROVISIONING_CLASS,
            count=group.count,
            run_seconds=str(queued[group.node_pool].max_run_duration_seconds),
            annotations=_fuse_annotations() if plan.storage.mounts else {},
            pod=_group(plan, group, whole_job=False),
        )
        for group in plan.groups
        if group.node_pool in queued
    ]
