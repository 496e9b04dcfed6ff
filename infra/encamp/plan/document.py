"""The plan as the JSON document that ``encamp plan --format json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from encamp.plan.cost.text import cost_document
from encamp.plan.declared import held_while_waiting
from encamp.plan.machines.quotas import quotas
from encamp.plan.manifests.containers import compact_json
from encamp.plan.study_text import shown_trial
from encamp.plan.tf_config import cluster_spec, replicas

if TYPE_CHECKING:
    from encamp.plan.manifests.mounts import MountPlan
    from encamp.plan.model import Accelerator, JobPlan, ReplicaPlan

#: Beyond so many replicas the cluster stands once in the document instead of in every replica.
WRITTEN_OUT = 64


def job_document(plan: JobPlan, *, full: bool = False) -> dict[str, Any]:
    """Return the document of a job's plan; of a study, with the first trial's replicas and names instead of values.

    Args:
        plan: the plan.
        full: write out TF_CONFIG of every replica, however many there are.
    """
    total = sum(group.count for group in plan.groups)
    written_out = full or total <= WRITTEN_OUT
    shown = shown_trial(plan)
    document: dict[str, Any] = {
        "jobId": plan.job_id,
        "name": plan.name,
        "region": plan.region,
        "replicas": [_replica(shown, replica, written_out=written_out) for replica in replicas(shown)],
        "nodePools": [
            {
                "name": pool.name,
                "machineType": pool.machine_type,
                "accelerator": _accelerator(pool.accelerator),
                "tpuTopology": pool.tpu_topology,
                "minNodes": pool.min_nodes,
                "maxNodes": pool.max_nodes,
                "provisioning": pool.provisioning,
                "reservation": pool.reservation,
                "zone": pool.zone,
                **({"zones": list(pool.zones)} if len(pool.zones) > 1 else {}),
                **({"placement": "COMPACT"} if pool.compact else {}),
                **({"rdmaNics": pool.rdma_nics} if pool.rdma_nics else {}),
                **({"shared": True} if pool.shared_in is not None else {}),
                "tpuHosts": pool.tpu_hosts,
                "bootDisk": {"type": pool.disk_type, "sizeGb": pool.disk_size_gb},
                "imageStreaming": pool.image_streaming,
            }
            for pool in plan.node_pools
        ],
        "identity": {
            "mode": str(plan.identity.mode),
            "serviceAccount": plan.identity.service_account,
            "kubernetesServiceAccount": plan.identity.kubernetes_service_account,
            "grants": [
                {
                    "role": grant.role,
                    "bucket": grant.bucket,
                    "prefix": grant.prefix,
                    **({"objects": list(grant.objects)} if grant.objects else {}),
                }
                for grant in plan.identity.grants
            ],
            "roles": sorted({grant.role for grant in plan.identity.grants}),
        },
        "storage": {
            "bucket": plan.storage.bucket,
            "jobDir": plan.storage.job_dir,
            "resultsBucket": plan.storage.results_bucket,
            "resultsDays": plan.storage.results_days,
            **({"mounts": [_mount(mount) for mount in plan.storage.mounts]} if plan.storage.mounts else {}),
        },
        "quotas": [{"quota": need.name, "region": need.region, "amount": need.amount} for need in quotas(plan)],
        "limits": {
            "maxRunningTimeSeconds": plan.limits.max_running_time.seconds,
            "maxRestarts": plan.limits.max_restarts,
            "deadlineSeconds": plan.limits.deadline_seconds,
            **({"queueSeconds": plan.limits.queue_seconds} if plan.queue is not None else {}),
        },
    }
    if plan.study is not None:
        document["study"] = plan.study.to_json()
    if plan.queue is not None:
        held = held_while_waiting(plan)
        document["queue"] = {"name": plan.queue.name, "priorityClass": plan.queue.priority_class, "held": held}
    if plan.notices:
        document["notices"] = [one.to_json() for one in plan.notices]
    if plan.cost is not None:
        document["cost"] = cost_document(plan.cost)
    if plan.findings:
        document["policy"] = [asdict(finding) for finding in plan.findings]
    if not written_out:
        document["cluster"] = {task: list(hosts) for task, hosts in shown.cluster.tasks.items()}
    return document


def _mount(mount: MountPlan) -> dict[str, Any]:
    return {"bucket": mount.bucket, "folder": mount.folder, "path": mount.path, "readOnly": mount.read_only}


def _replica(plan: JobPlan, replica: ReplicaPlan, *, written_out: bool) -> dict[str, Any]:
    group = replica.group
    env = dict(group.env)
    if group.custom_container and written_out:
        env["CLUSTER_SPEC"] = compact_json(cluster_spec(plan, group, replica.index))
    return {
        "name": replica.name,
        "role": group.role.value,
        "index": replica.index,
        "requested": {
            "machineType": group.requested.machine_type,
            "accelerator": _accelerator(group.requested.accelerator),
        },
        "machineType": group.machine_type,
        "accelerator": _accelerator(group.accelerator),
        "image": group.image,
        "command": list(group.command) if group.command is not None else None,
        "args": list(group.args) if group.args is not None else None,
        "env": dict(sorted(env.items())),
        "tfConfig": replica.tf_config if written_out else None,
    }


def _accelerator(accelerator: Accelerator | None) -> dict[str, Any] | None:
    return None if accelerator is None else {"type": accelerator.type, "count": accelerator.count}
