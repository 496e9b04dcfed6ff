"""Network, buckets, key and budget of an environment: from their blocks to Google's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.duration import Duration
from encamp.plan.environment.model import (
    AgentPlan,
    BucketPlan,
    BudgetPlan,
    KeyPlan,
    LifecyclePlan,
    LogExclusionPlan,
    VpcPlan,
)
from encamp.plan.model import ENVIRONMENT_LABEL
from encamp.plan.names import KEY, short_name
from encamp.spec.environment.storage import StorageSpec
from encamp.spec.environment.vpc import MOST_PORTS, VpcSpec

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

#: APIs that every environment and its jobs use. Image streaming uses Container File System, grants Resource Manager.
SERVICES = (
    "artifactregistry.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "storage.googleapis.com",
)
#: Service agents that encrypt and decrypt: of buckets, node disks, the cluster's secrets, images.
#: Source: cloud.google.com/kms/docs/compatible-services, and there the page of each.
AGENTS = (
    AgentPlan("storage", None),
    AgentPlan("compute", "service-{number}@compute-system.iam.gserviceaccount.com"),
    AgentPlan("container", "service-{number}@container-engine-robot.iam.gserviceaccount.com"),
    AgentPlan(
        "artifactregistry",
        "service-{number}@gcp-sa-artifactregistry.iam.gserviceaccount.com",
        identity="artifactregistry.googleapis.com",
    ),
)
#: The group that delivers usage logs: cloud.google.com/storage/docs/access-logs#delivery.
LOG_WRITER = "cloud-storage-analytics@google.com"
#: Parts of an upload that nobody finished are deleted after so many days.
UNFINISHED_DAYS = 7
_SECONDS_A_DAY = 86400


def plan_services(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return the services that are enabled."""
    more = {"cloudkms.googleapis.com": spec.encryption, "billingbudgets.googleapis.com": spec.budget}
    return tuple(sorted({*SERVICES, *(service for service, block in more.items() if block is not None)}))


def plan_vpc(spec: EnvironmentSpec) -> VpcPlan:
    """Decide everything about the network."""
    vpc = spec.vpc or VpcSpec()
    host = vpc.host_project or spec.project
    return VpcPlan(
        network=f"projects/{host}/global/networks/{spec.network}",
        subnetwork=f"projects/{host}/regions/{spec.region}/subnetworks/{spec.subnetwork}",
        pods_range=vpc.pods_range,
        services_range=vpc.services_range,
        mtu=vpc.mtu,
        router=f"{spec.network}-router",
        nat=f"{spec.network}-nat",
        nat_ports=(vpc.nat_ports_per_machine, MOST_PORTS),
        flow_logs=vpc.flow_logs,
    )


def keeps_versions(spec: EnvironmentSpec) -> bool:
    """Decide whether what is overwritten or deleted in the artifacts bucket stays for a while."""
    asked = spec.storage.versioning if spec.storage is not None else None
    return not spec.is_sandbox if asked is None else asked


def plan_artifacts(spec: EnvironmentSpec) -> BucketPlan:
    """Return the bucket of results, sealed logs and receipts."""
    storage = spec.storage or StorageSpec()
    versioning = keeps_versions(spec)
    rules = []
    if spec.artifacts_retention_days is not None:
        rules.append(LifecyclePlan("Delete", age_days=spec.artifacts_retention_days, live=versioning))
    if storage.colder_after_days is not None:
        rules.append(LifecyclePlan("SetStorageClass", age_days=storage.colder_after_days, storage_class="NEARLINE"))
    if versioning:
        rules.append(LifecyclePlan("Delete", old_days=storage.keep_old_versions_days))
        rules.append(LifecyclePlan("Delete", newer=storage.keep_versions))
        if storage.checkpoint_suffixes:
            days, suffixes = storage.keep_old_checkpoints_days, tuple(storage.checkpoint_suffixes)
            rules.append(LifecyclePlan("Delete", old_days=days, suffixes=suffixes))
    rules.append(LifecyclePlan("AbortIncompleteMultipartUpload", age_days=UNFINISHED_DAYS))
    return BucketPlan(spec.artifacts_bucket, versioning, tuple(rules), storage.soft_delete_days)


def plan_logs(spec: EnvironmentSpec) -> BucketPlan | None:
    """Return the bucket of logs, or None."""
    storage = spec.storage
    if storage is None or storage.logs_bucket is None:
        return None
    return BucketPlan(storage.logs_bucket, False, (LifecyclePlan("Delete", age_days=storage.logs_retention_days),))


def has_job_logs(spec: EnvironmentSpec) -> bool:
    """Decide whether what replicas write is taken in by Cloud Logging, too."""
    asked = spec.gke.job_logs if spec.gke is not None else None
    return spec.driver is None if asked is None else asked


def plan_log_exclusion(spec: EnvironmentSpec) -> LogExclusionPlan | None:
    """Return the exclusion of replicas' output from Cloud Logging (logging-exclusion-default-sink); None to keep it."""
    if has_job_logs(spec):
        return None
    labels = {"cluster_name": spec.cluster, "location": spec.region, "namespace_name": spec.namespace}
    return LogExclusionPlan(
        name=short_name(spec.project, spec.name, "encamp-jobs"),
        description="Logs of training jobs: encamp stores them in the artifacts bucket",
        filter=" AND ".join(
            ('resource.type="k8s_container"', *(f'resource.labels.{key}="{value}"' for key, value in labels.items()))
        ),
    )


def plan_key(spec: EnvironmentSpec) -> KeyPlan | None:
    """Return the key of what is stored; None for Google's own."""
    encryption = spec.encryption
    if encryption is None:
        return None
    ring = encryption.key_ring or spec.name
    made = f"projects/{spec.project}/locations/{spec.region}/keyRings/{ring}/cryptoKeys/{KEY}"
    return KeyPlan(
        full_name=encryption.key or made,
        ring=None if encryption.key else ring,
        rotation=str(Duration.of(encryption.rotation_days * _SECONDS_A_DAY)),
        agents=AGENTS if encryption.grant else (),
    )


def plan_budget(spec: EnvironmentSpec) -> BudgetPlan | None:
    """Return the budget alert, or None."""
    budget = spec.budget
    if budget is None:
        return None
    spent = tuple((share, "CURRENT_SPEND") for share in sorted(budget.at))
    foreseen = tuple((share, "FORECASTED_SPEND") for share in sorted(budget.at_forecast))
    return BudgetPlan(
        display_name=f"encamp {spec.name}",
        billing_account=budget.billing_account,
        units=budget.amount,
        currency=budget.currency,
        labels={} if budget.whole_project else {ENVIRONMENT_LABEL: spec.name},
        thresholds=(*spent, *foreseen),
        channels=tuple(budget.channels),
        topic=budget.topic,
    )
