"""Whoever brings something up is told of every permission that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.job_cases import job_case

from encamp.plan.access.permissions import BILLING, environment_permissions, job_permissions, roles_of
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, parse_environment

ROOT = Path(__file__).resolve().parents[2]
DECLARED = ROOT / "tests" / "components" / "golden"
#: What the API asks for when one is made; what changes a policy asks for the policy's owner.
TAKES = {
    "artifactregistry/repository:Repository": "artifactregistry.repositories.create",
    "artifactregistry/repositoryIamMember:RepositoryIamMember": "artifactregistry.repositories.setIamPolicy",
    "billing/budget:Budget": "billing.budgets.create",
    "compute/network:Network": "compute.networks.create",
    "compute/resourcePolicy:ResourcePolicy": "compute.resourcePolicies.create",
    "compute/router:Router": "compute.routers.create",
    "compute/routerNat:RouterNat": "compute.routers.update",
    "compute/subnetwork:Subnetwork": "compute.subnetworks.create",
    "container/cluster:Cluster": "container.clusters.create",
    "container/nodePool:NodePool": "container.clusters.update",
    "kms/cryptoKey:CryptoKey": "cloudkms.cryptoKeys.create",
    "kms/cryptoKeyIAMMember:CryptoKeyIAMMember": "cloudkms.cryptoKeys.setIamPolicy",
    "kms/keyRing:KeyRing": "cloudkms.keyRings.create",
    "logging/metric:Metric": "logging.logMetrics.create",
    "logging/projectExclusion:ProjectExclusion": "logging.exclusions.create",
    "logging/projectSink:ProjectSink": "logging.sinks.create",
    "monitoring/alertPolicy:AlertPolicy": "monitoring.alertPolicies.create",
    "monitoring/dashboard:Dashboard": "monitoring.dashboards.create",
    "monitoring/notificationChannel:NotificationChannel": "monitoring.notificationChannels.create",
    "projects/iAMAuditConfig:IAMAuditConfig": "resourcemanager.projects.setIamPolicy",
    "projects/iAMCustomRole:IAMCustomRole": "iam.roles.create",
    "projects/iAMMember:IAMMember": "resourcemanager.projects.setIamPolicy",
    "projects/service:Service": "serviceusage.services.enable",
    "projects/serviceIdentity:ServiceIdentity": "serviceusage.services.enable",
    "serviceaccount/account:Account": "iam.serviceAccounts.create",
    "serviceaccount/iAMMember:IAMMember": "iam.serviceAccounts.setIamPolicy",
    "storage/bucket:Bucket": "storage.buckets.create",
    "storage/bucketIAMMember:BucketIAMMember": "storage.buckets.setIamPolicy",
    "storage/bucketObject:BucketObject": "storage.objects.create",
}


def declared(stack: str) -> set[str]:
    """Tokens of what a stack makes at Google."""
    keys = yaml.safe_load((DECLARED / f"{stack}.yaml").read_text())
    return {key.split(" ")[0].removeprefix("gcp:") for key in keys if key.startswith("gcp:")}


@pytest.mark.parametrize(
    "file", ["full", "with-access", "with-a-reaper", "with-monitoring", "with-drivers", "with-an-api"]
)
def test_an_environment_is_asked_for_every_permission_that_its_resources_take(file: str) -> None:
    golden = {
        "full": "environment", "with-access": "access", "with-a-reaper": "reaper",
        "with-monitoring": "monitoring", "with-drivers": "driver", "with-an-api": "api",
    }  # fmt: skip
    written = yaml.safe_load((ROOT / "tests" / "components" / "environments" / f"{file}.yaml").read_text())
    plan = plan_environment(parse_environment(written, project="lab", source=file))
    asked = {**environment_permissions(plan), **roles_of(BILLING)}
    tokens = declared(golden[file])
    assert tokens
    assert {TAKES[token] for token in tokens} <= asked.keys()
    assert all(role.startswith("roles/") for role in asked.values())


@pytest.mark.parametrize("case", ["identity-account", "identity-direct", "storage-own-bucket", "storage-given-account"])
def test_a_job_is_asked_for_every_permission_that_its_resources_take(case: str, environment: EnvironmentSpec) -> None:
    found = job_case(case).job_file().named("j")
    asked = job_permissions(plan_job(found.job, environment))
    assert {TAKES[token] for token in declared(case)} <= asked.keys()


def test_who_starts_a_job_without_an_account_needs_no_right_on_accounts(environment: EnvironmentSpec) -> None:
    asked = {}
    for case in ("identity-direct", "identity-account"):
        found = job_case(case).job_file().named("j")
        asked[case] = job_permissions(plan_job(found.job, environment))
    assert not [
        one for one in asked["identity-direct"] if one.startswith("iam.serviceAccounts.") and "actAs" not in one
    ]
    assert "iam.serviceAccounts.create" in asked["identity-account"]


def test_what_is_adopted_needs_no_right_to_make_it() -> None:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    whole = plan_environment(parse_environment(data, project="lab-project", source="x"))
    adopted = plan_environment(
        parse_environment(data | {"adopt": ["network", "registry"]}, project="lab-project", source="x")
    )
    assert "compute.networks.create" in environment_permissions(whole)
    assert "compute.networks.create" not in environment_permissions(adopted)
    assert "artifactregistry.repositories.create" not in environment_permissions(adopted)


@pytest.mark.parametrize(("case", "needed"), [("tpu-7x-multi-host", True), ("tpu-v5e-single-host", False)])
def test_placement_is_a_right_of_its_own(case: str, needed: bool, environment: EnvironmentSpec) -> None:
    found = job_case(case).job_file().named("j")
    asked = job_permissions(plan_job(found.job, environment))
    assert ("compute.resourcePolicies.create" in asked) == needed
