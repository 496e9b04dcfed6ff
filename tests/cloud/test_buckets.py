from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.buckets import CREATE, DELETE, LIST, READ, Buckets, is_near, is_uniform
from encamp.cloud.rest import RestError

if TYPE_CHECKING:
    from encamp.cloud.rest import GoogleClient

ACCOUNT = "trainer@p.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{ACCOUNT}"
ALL = {CREATE, DELETE, LIST, READ}


def grant(google: Any, role: str, *members: str, on: str = "b/results", **more: Any) -> None:
    policy = google.policies.setdefault(on, {"etag": "0", "bindings": []})
    policy["bindings"].append({"role": role, "members": list(members), **more})


@pytest.fixture
def buckets(google: Any, client: GoogleClient) -> Buckets:
    google.add_bucket("results")
    return Buckets(client)


def test_a_bucket_that_is_not_there_is_none_and_one_that_may_not_be_seen_is_empty(
    google: Any, buckets: Buckets
) -> None:
    assert buckets.find("nothing") is None
    google.say("GET /storage/v1/b/hidden", 403, {"error": {"code": 403, "message": "no"}})
    assert buckets.find("hidden") == {}
    google.say("GET /storage/v1/b/broken", 400, {"error": {"code": 400, "message": "odd"}})
    with pytest.raises(RestError):
        buckets.find("broken")


def test_a_bucket_is_asked_for_once(google: Any, buckets: Buckets) -> None:
    assert buckets.find("results") is buckets.find("results")
    assert (buckets.find("results") or {})["name"] == "results"
    assert len(google.requests) == 1


def test_objects_are_there_or_not_or_hidden(google: Any, buckets: Buckets) -> None:
    google.objects["results", "a/b.whl"] = b"wheel"
    google.say("/o/hidden", 403, {"error": {"code": 403, "message": "no"}})
    assert [buckets.holds("results", name) for name in ("a/b.whl", "a/c.whl", "hidden")] == [True, False, None]


@pytest.mark.parametrize(
    ("role", "given"),
    [
        ("roles/storage.objectAdmin", ALL),
        ("roles/storage.objectUser", ALL),
        ("roles/storage.objectCreator", {CREATE}),
        ("roles/storage.objectViewer", {READ, LIST}),
        ("roles/storage.legacyBucketWriter", {CREATE, DELETE, LIST}),
        ("roles/storage.legacyObjectReader", {READ}),
        ("roles/logging.logWriter", set[str]()),
    ],
)
@pytest.mark.parametrize("on", ["b/results", "p"])
def test_roles_on_the_bucket_and_on_its_project_count(
    google: Any, buckets: Buckets, role: str, given: set[str], on: str
) -> None:
    grant(google, role, "user:another@e.com", MEMBER, on=on)
    rights = buckets.rights("results", ACCOUNT, "p")
    assert (rights.given, rights.doubts) == (given, ())


def test_the_project_is_the_buckets_own_where_it_says_so(google: Any, buckets: Buckets) -> None:
    google.buckets["results"]["projectNumber"] = "42"
    grant(google, "roles/storage.admin", MEMBER, on="42")
    assert buckets.rights("results", ACCOUNT, "p").given == ALL


def test_rights_of_others_do_not_count_and_those_of_everybody_do(google: Any, buckets: Buckets) -> None:
    grant(google, "roles/storage.objectAdmin", "serviceAccount:other@p.iam.gserviceaccount.com")
    grant(google, "roles/storage.objectViewer", "allUsers")
    assert buckets.rights("results", ACCOUNT, "p").given == {READ, LIST}


def test_a_custom_role_is_read(google: Any, buckets: Buckets) -> None:
    google.roles["trainer"] = [CREATE, "storage.buckets.get"]
    grant(google, "projects/p/roles/trainer", MEMBER)
    grant(google, "projects/p/roles/secret", MEMBER)
    rights = buckets.rights("results", ACCOUNT, "p")
    assert rights.given == {CREATE}
    assert rights.doubts == ("gs://results: the role projects/p/roles/secret may not be read",)


def test_conditions_groups_and_hidden_policies_are_doubts(google: Any, buckets: Buckets) -> None:
    grant(google, "roles/storage.objectUser", MEMBER, condition={"title": "t", "expression": "true"})
    grant(google, "roles/storage.objectUser", "group:team@e.com")
    grant(google, "roles/viewer", "group:everybody@e.com")
    google.say("POST /crm/v1/projects/p:getIamPolicy", 403, {"error": {"code": 403, "message": "no"}})
    rights = buckets.rights("results", ACCOUNT, "p")
    assert rights.given == set()
    assert rights.doubts == (
        "gs://results: roles/storage.objectUser holds under a condition",
        "gs://results: roles/storage.objectUser is given to group:team@e.com, which may contain the account",
        "the IAM policy of project p may not be read",
    )


@pytest.mark.parametrize(
    ("location", "region", "near"),
    [
        ("US-CENTRAL1", "us-central1", True),
        ("US-EAST1", "us-central1", False),
        ("US", "us-west4", True),
        ("US", "europe-west4", False),
        ("EU", "europe-west4", True),
        ("EU", "europe-west2", False),
        ("ASIA", "asia-south1", True),
        ("NAM4", "us-central1", True),
        ("NAM4", "us-west1", False),
        ("EUR4", "europe-north1", True),
        ("ASIA1", "asia-northeast2", True),
        ("NOWHERE", "us-central1", False),
    ],
)
def test_a_location_is_near_what_lies_in_it(location: str, region: str, *, near: bool) -> None:
    assert is_near({"location": location}, region) is near


def test_a_dual_region_names_its_two(google: Any) -> None:
    del google
    bucket = {"location": "US", "customPlacementConfig": {"dataLocations": ["US-EAST1", "US-WEST1"]}}
    assert is_near(bucket, "us-west1")


@pytest.mark.parametrize(
    ("resource", "uniform"),
    [
        ({"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}, True),
        ({"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}, False),
        ({"name": "old"}, False),
        ({}, None),
    ],
)
def test_a_bucket_says_whether_its_access_is_uniform(resource: dict[str, Any], *, uniform: bool | None) -> None:
    assert is_uniform(resource) is uniform
