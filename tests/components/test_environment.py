"""Environments as production has them: everything of their own, or in what was there before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.plan.environment.gke import node_features
from encamp.plan.machines.system_pods import NodeFeature
from encamp.spec.environment import parse_environment
from encamp_sandbox.gcp_provider.table import TYPES
from encamp_sandbox.kubelet.features import cluster_features

if TYPE_CHECKING:
    from collections.abc import Callable

    Resources = dict[str, dict[str, Any]]

pytestmark = pytest.mark.slow

CLUSTER = "gcp:container/cluster:Cluster lab"
KEY = "projects/my-lab-project/locations/us-central1/keyRings/lab/cryptoKeys/encamp"
NODES = "encamp-nodes-641d60ee@my-lab-project.iam.gserviceaccount.com"


def test_an_environment_with_everything_is_what_its_golden_says(
    declared: Callable[[str], Resources], same_as_golden: Callable[[Resources, str], None]
) -> None:
    found = declared("full")
    same_as_golden({key: value for key, value in found.items() if key.startswith("gcp:")}, "environment")


def test_what_must_not_be_lost_is_protected(declared: Callable[[str], Resources]) -> None:
    found = declared("full")
    kinds = {name.rpartition(":")[2] for name in found["pulumi:protected"]["resources"]}
    assert kinds == {"Repository lab", "Cluster lab", "CryptoKey lab", "KeyRing lab", "Bucket lab-artifacts"} | {
        "Bucket lab-logs"
    }
    assert found[CLUSTER]["deletionProtection"] is True
    buckets = [inputs for key, inputs in found.items() if key.startswith("gcp:storage/bucket:")]
    assert [bucket["forceDestroy"] for bucket in buckets] == [False, False]


def test_everything_that_stores_is_under_the_key(declared: Callable[[str], Resources]) -> None:
    found = declared("full")
    assert found["gcp:storage/bucket:Bucket lab-logs"]["encryption"] == {"defaultKmsKeyName": KEY}
    assert found["gcp:artifactregistry/repository:Repository lab"]["kmsKeyName"] == KEY
    assert found[CLUSTER]["databaseEncryption"] == {"state": "ENCRYPTED", "keyName": KEY}
    assert found["gcp:container/nodePool:NodePool system"]["nodeConfig"]["bootDiskKmsKey"] == KEY
    agents = {inputs["member"].partition("@")[2] for key, inputs in found.items() if "CryptoKeyIAMMember" in key}
    names = ("compute-system", "container-engine-robot", "gcp-sa-artifactregistry", "gs-project-accounts")
    assert agents == {f"{name}.iam.gserviceaccount.com" for name in names}


def test_no_node_runs_as_the_projects_default_account(declared: Callable[[str], Resources]) -> None:
    found = declared("full")
    cluster, pool = found[CLUSTER], found["gcp:container/nodePool:NodePool system"]
    made = cluster["clusterAutoscaling"]["autoProvisioningDefaults"]
    assert [one["serviceAccount"] for one in (cluster["nodeConfig"], pool["nodeConfig"], made)] == [NODES] * 3


def test_what_is_adopted_is_read_and_not_made(declared: Callable[[str], Resources]) -> None:
    found = {key: inputs["found"] for key, inputs in declared("adopted").items() if "found" in inputs}
    assert found == {
        "gcp:artifactregistry/repository:Repository lab": (
            "projects/my-lab-project/locations/us-central1/repositories/team"
        ),
        "gcp:compute/network:Network lab": "projects/my-host-project/global/networks/shared",
        "gcp:compute/subnetwork:Subnetwork lab": "projects/my-host-project/regions/us-central1/subnetworks/training",
        "gcp:storage/bucket:Bucket lab-artifacts": "team-results",
    }
    cluster = declared("adopted")[CLUSTER]
    assert cluster["network"] == "projects/my-host-project/global/networks/shared"
    assert cluster["ipAllocationPolicy"]["clusterSecondaryRangeName"] == "training-pods"
    assert not [key for key in declared("adopted") if key.startswith(("gcp:compute/router", "gcp:kms/"))]


def test_an_adopted_cluster_brings_its_network_and_machines(declared: Callable[[str], Resources]) -> None:
    found = declared("adopted-cluster")
    assert found[CLUSTER] == {"found": "projects/my-lab-project/locations/us-central1/clusters/platform"}
    assert not [key for key in found if key.startswith(("gcp:compute/", "gcp:container/nodePool"))]
    kubeconfig = found["pulumi:providers:kubernetes lab"]["kubeconfig"]
    assert "platform" in kubeconfig
    assert "https://gke-42.us-central1.gke.goog" in kubeconfig
    assert "certificate-authority-data" not in kubeconfig


def test_everything_that_an_environment_declares_is_in_the_sandbox_too(declared: Callable[[str], Resources]) -> None:
    kinds = {key.partition(" ")[0] for name in ("full", "with-access") for key in declared(name)}
    assert {kind for kind in kinds if kind.startswith("gcp:")} - set(TYPES) == set()


def test_pods_of_jobs_are_judged_by_a_policy_where_tpus_may_lock_memory(declared: Callable[[str], Resources]) -> None:
    def namespace(name: str) -> dict[str, str]:
        labels: dict[str, str] = declared(name)["kubernetes:core/v1:Namespace lab"]["metadata"]["labels"]
        return labels

    group = "kubernetes:admissionregistration.k8s.io/v1"
    enforced = "pod-security.kubernetes.io/enforce"
    assert namespace("adopted")[enforced] == "baseline"
    assert not [key for key in declared("adopted") if key.startswith(group)]
    full = declared("full")
    assert namespace("full")[enforced] == "privileged"
    policy = full[f"{group}:ValidatingAdmissionPolicy lab-pods-of-jobs"]
    binding = full[f"{group}:ValidatingAdmissionPolicyBinding lab-pods-of-jobs"]
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "encamp-jobs"}
    assert binding["spec"] == {"policyName": "lab-pods-of-jobs", "validationActions": ["Deny"]}


def test_the_plan_counts_every_feature_that_the_cluster_is_made_with(declared: Callable[[str], Resources]) -> None:
    inputs = declared("full")[CLUSTER]
    as_gke_lists_it = {
        "networkConfig": {"datapathProvider": inputs["datapathProvider"]},
        "addonsConfig": inputs["addonsConfig"],
        "loggingConfig": {"componentConfig": inputs["loggingConfig"]},
        "monitoringConfig": {
            "componentConfig": inputs["monitoringConfig"],
            "managedPrometheusConfig": inputs["monitoringConfig"]["managedPrometheus"],
        },
        "workloadIdentityConfig": inputs["workloadIdentityConfig"],
    }
    data = yaml.safe_load((Path(__file__).parent / "environments" / "full.yaml").read_text(encoding="utf-8"))
    written = parse_environment(data, project="my-lab-project", source="test")
    # GKE may turn on its DNS cache by itself.
    assert node_features(written) - cluster_features(as_gke_lists_it) == {NodeFeature.DNS_CACHE}
    assert cluster_features(as_gke_lists_it) <= node_features(written)


def test_a_budget_is_made_with_anybodys_credentials(registered: Callable[[str], Resources]) -> None:
    """Google's API takes a person's only with a project whose quota the request counts against."""
    provider = registered("production")["pulumi:providers:gcp billing"]
    assert (provider["billingProject"], provider["userProjectOverride"]) == ("acme-ml", "true")


def test_pools_that_gke_makes_by_itself_have_disks_like_ours(declared: Callable[[str], Resources]) -> None:
    made = declared("full")[CLUSTER]["clusterAutoscaling"]["autoProvisioningDefaults"]
    assert (made["diskType"], made["diskSize"], made["imageType"]) == ("pd-balanced", 100, "COS_CONTAINERD")


def test_no_pool_is_waited_for_for_hours(
    declared: Callable[[str], Resources], registered: Callable[[str], Resources]
) -> None:
    half_an_hour = {"create": "30m", "update": "30m", "delete": "30m"}
    assert declared("full")["pulumi:timeouts"]["gcp:container/nodePool:NodePool system"] == half_an_hour
    job = registered("job/basic-bare")
    pools = [key for key in job if key.startswith("gcp:container/nodePool:")]
    assert pools
    assert [job["pulumi:timeouts"][pool] for pool in pools] == [half_an_hour]
