"""Buckets as Cloud Storage makes, shows and changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.desk import PROJECT
from tests.sandbox.cloud.examples import EXAMPLES

if TYPE_CHECKING:
    from tests.sandbox.cloud.desk import Desk

pytestmark = pytest.mark.slow

BUCKETS = "storage/v1/b"
ANA = "user:ana@example.com"


def test_a_bucket_shows_what_the_server_fills_in(desk: Desk) -> None:
    desk.do("POST", BUCKETS, {"name": "plain-bucket"})
    shown = desk.do("GET", f"{BUCKETS}/plain-bucket")
    assert (shown["location"], shown["locationType"], shown["rpo"]) == ("US", "multi-region", "DEFAULT")
    assert (shown["storageClass"], shown["projectNumber"]) == ("STANDARD", desk.cloud.number)
    assert shown["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    access = shown["iamConfiguration"]
    assert (access["uniformBucketLevelAccess"]["enabled"], access["publicAccessPrevention"]) == (False, "inherited")
    assert shown["metageneration"] == "1"
    desk.do("POST", BUCKETS, {"name": "near-bucket", "location": "europe-west4"})
    near = desk.do("GET", f"{BUCKETS}/near-bucket")
    assert (near["location"], near["locationType"], near.get("rpo")) == ("EUROPE-WEST4", "region", None)


def test_a_patch_merges_and_counts_the_metageneration(desk: Desk) -> None:
    EXAMPLES["storage:b"].create(desk)
    path = EXAMPLES["storage:b"].path
    desk.do("PATCH", path, {"labels": {"team": "lab", "run": "7"}})
    desk.do("PATCH", path, {"labels": {"run": None}, "lifecycle": None})
    shown = desk.do("GET", path)
    assert (shown["labels"], shown.get("lifecycle"), shown["versioning"]) == ({"team": "lab"}, None, {"enabled": True})
    assert shown["metageneration"] == "3"
    wrong = desk.refused("PATCH", path, {"storageClass": "WARM"})
    assert (wrong.status, wrong.belief) == (400, "storage-classes")


def test_conditions_and_federated_members_need_uniform_access(desk: Desk) -> None:
    desk.do("POST", BUCKETS, {"name": "plain-bucket"})
    path = f"{BUCKETS}/plain-bucket/iam"
    condition = {"title": "t", "expression": 'resource.name.startsWith("projects/_/buckets/plain-bucket/")'}
    bound = {"role": "roles/storage.objectAdmin", "members": [ANA]}
    answer = desk.refused("PUT", path, {"bindings": [{**bound, "condition": condition}], "version": 3})
    assert (answer.status, answer.belief) == (400, "storage-conditions-need-uniform-access")
    member = f"principal://iam.googleapis.com/projects/{desk.cloud.number}/locations/global/workloadIdentityPools/p/subject/s"
    answer = desk.refused("PUT", path, {"bindings": [{**bound, "members": [member]}]})
    assert (answer.status, answer.belief) == (400, "storage-federated-members-need-uniform-access")
    desk.do("PATCH", f"{BUCKETS}/plain-bucket", {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}})
    policy = desk.do("PUT", path, {"bindings": [{**bound, "condition": condition}], "version": 3})
    assert policy["resourceId"] == "projects/_/buckets/plain-bucket"
    stale = desk.refused("PUT", path, {"bindings": [], "etag": "old"})
    assert (stale.status, stale.belief) == (409, "api-stale-etag-is-409")


def test_a_new_bucket_has_no_policy_of_an_old_one(desk: Desk) -> None:
    path = f"{BUCKETS}/plain-bucket"
    desk.do("POST", BUCKETS, {"name": "plain-bucket"})
    desk.do("PUT", f"{path}/iam", {"bindings": [{"role": "roles/storage.admin", "members": [ANA]}]})
    assert desk.ask("DELETE", path).status == 204
    desk.do("POST", BUCKETS, {"name": "plain-bucket"})
    assert "bindings" not in desk.do("GET", f"{path}/iam")


def test_a_bucket_of_nobody_is_missing(desk: Desk) -> None:
    for path in (f"{BUCKETS}/absent", f"{BUCKETS}/absent/iam"):
        assert desk.ask("GET", path).status == 404
    assert desk.do("GET", f"storage/v1/{PROJECT}/serviceAccount")["email_address"].startswith("service-")
