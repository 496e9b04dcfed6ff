from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.cloud.leftovers import JobPlace, leftovers, owned
from encamp.cloud.resources import Container, bindings_of
from encamp.kinds.model import described

if TYPE_CHECKING:
    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

LABELS = {"encamp-job": "digits-1", "encamp-owner": "me", "encamp-environment": "e"}
EMAIL = "digits-1@p.iam.gserviceaccount.com"
PLACE = JobPlace("p", LABELS, "projects/p/locations/r/clusters/c", "jobs", ("artifacts",), EMAIL)


def _furnish(google: Any, kubernetes: Any) -> None:
    google.add_bucket("artifacts")
    google.add_bucket("scratch", **LABELS)
    google.add_bucket("digits-1-lookalike", **{**LABELS, "encamp-owner": "another"})
    google.pools["pool"] = {"name": "pool", "config": {"resourceLabels": {**LABELS, "encamp-deadline": "1"}}}
    google.pools["other"] = {"name": "other", "config": {"resourceLabels": {"encamp-job": "digits-1"}}}
    google.accounts[EMAIL] = {"email": EMAIL, "description": " ".join(f"{k}={v}" for k, v in LABELS.items())}
    google.accounts["x"] = {"email": "x", "description": "encamp-job=digits-1 of somebody"}
    member = f"serviceAccount:{EMAIL}"
    google.policies["p"] = {
        "etag": "3",
        "bindings": [
            {"role": "roles/logging.logWriter", "members": [member, "user:a"]},
            {"role": "roles/viewer", "members": [f"deleted:{member}?uid=7"]},
        ],
    }
    google.policies["b/artifacts"] = {
        "etag": "0",
        "bindings": [{"role": "roles/storage.objectUser", "members": [member]}],
    }
    kubernetes.put("jobsets", "digits-1", LABELS)
    kubernetes.put("jobsets", "digits-2", {**LABELS, "encamp-job": "digits-2"})


def test_everything_of_a_job_is_listed_and_nothing_else(
    google: Any, client: GoogleClient, kubernetes: Any, cluster: Cluster
) -> None:
    _furnish(google, kubernetes)
    assert [str(one) for one in leftovers(client, PLACE, cluster)] == [
        "jobset jobs/digits-1",
        f"binding p roles/logging.logWriter {EMAIL}",
        f"binding p roles/viewer {EMAIL}",
        f"binding gs://artifacts roles/storage.objectUser {EMAIL}",
        "node pool projects/p/locations/r/clusters/c/nodePools/pool",
        "bucket gs://scratch",
        f"service account {EMAIL}",
    ]


def test_each_leftover_deletes_itself_and_leaves_look_alikes(
    google: Any, client: GoogleClient, kubernetes: Any, cluster: Cluster
) -> None:
    _furnish(google, kubernetes)
    for one in leftovers(client, PLACE, cluster):
        one.delete()
    assert leftovers(client, PLACE, cluster) == []
    assert sorted(google.buckets) == ["artifacts", "digits-1-lookalike"]
    assert list(google.pools) == ["other"]
    assert list(google.accounts) == ["x"]
    assert google.policies["p"]["bindings"] == [{"role": "roles/logging.logWriter", "members": ["user:a"]}]
    assert [name for _, name in kubernetes.objects] == ["digits-2"]


def test_bindings_of_an_account_that_is_gone_are_found_by_the_given_address(google: Any, client: GoogleClient) -> None:
    google.policies["p"] = {
        "etag": "0",
        "bindings": [{"role": "r", "members": [f"deleted:serviceAccount:{EMAIL}?uid=1"]}],
    }
    assert [one.kind for one in leftovers(client, PLACE)] == ["binding"]


def test_a_policy_that_changes_meanwhile_is_read_again(google: Any, client: GoogleClient) -> None:
    google.policies["p"] = {"etag": "0", "bindings": [{"role": "r", "members": [f"serviceAccount:{EMAIL}"]}]}
    google.fail("setIamPolicy", 409)
    leftovers(client, PLACE)[0].delete()
    assert google.policies["p"]["bindings"] == []


def test_a_node_pool_is_deleted_once_other_operations_let_it(google: Any, client: GoogleClient) -> None:
    google.pools["pool"] = {"name": "pool"}
    google.fail("DELETE .*nodePools", 400, 409)
    Container(client, sleep=lambda _: None).delete_node_pool("projects/p/locations/r/clusters/c", "pool")
    assert google.pools == {}


def test_it_is_told_what_gke_is_at_in_one_cluster(google: Any, client: GoogleClient) -> None:
    container, cluster = Container(client), "projects/p/locations/us-central1/clusters/encamp"
    assert container.open_operations(cluster) == []
    link = "https://container.googleapis.com/v1/projects/42/locations/us-central1/clusters"
    begun = {"status": "RUNNING", "startTime": "2026-11-22T10:00:00Z"}
    google.operations = [
        {**begun, "operationType": "CREATE_NODE_POOL", "targetLink": f"{link}/encamp/nodePools/big"},
        {**begun, "operationType": "UPGRADE_MASTER", "targetLink": f"{link}/encamp"},
        {**begun, "operationType": "UPGRADE_NODES", "targetLink": f"{link}/encamp-2/nodePools/other"},
        {**begun, "operationType": "DELETE_NODE_POOL", "status": "DONE", "targetLink": f"{link}/encamp/nodePools/old"},
    ]
    assert container.open_operations(cluster) == [
        "CREATE_NODE_POOL of big since 2026-11-22T10:00:00Z",
        "UPGRADE_MASTER of encamp since 2026-11-22T10:00:00Z",
    ]


def test_a_job_without_a_name_owns_nothing() -> None:
    assert not owned({"encamp-owner": "me"}, {"encamp-owner": "me"})
    assert not owned(None, LABELS)


def test_a_description_carries_labels_as_words() -> None:
    assert described("made by encamp-job=a encamp-owner=b=c") == {"encamp-job": "a", "encamp-owner": "b=c"}


def test_an_account_whose_address_begins_alike_is_another() -> None:
    policy = {"bindings": [{"role": "r", "members": [f"serviceAccount:a{EMAIL}", f"serviceAccount:{EMAIL}.x"]}]}
    assert bindings_of(policy, EMAIL) == []


def test_bindings_of_the_jobs_kubernetes_account_are_found_whatever_the_projects_number(
    google: Any, client: GoogleClient
) -> None:
    start = "principal://iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/p.svc.id.goog/subject"
    ours, other = f"{start}/ns/jobs/sa/digits-1", f"{start}/ns/jobs/sa/digits-10"
    google.add_bucket("artifacts")
    google.policies["p"] = {"etag": "0", "bindings": [{"role": "r", "members": [ours, other]}]}
    google.policies["b/artifacts"] = {"etag": "0", "bindings": [{"role": "s", "members": [other]}]}
    (found,) = leftovers(client, PLACE)
    assert str(found) == "binding p r ns/jobs/sa/digits-1"
    found.delete()
    assert google.policies["p"]["bindings"] == [{"role": "r", "members": [other]}]


def test_a_bucket_that_is_gone_has_no_bindings(google: Any, client: GoogleClient) -> None:
    google.say("GET /storage/v1/b/artifacts/iam", 404, {"error": {"code": 404, "message": "no bucket"}})
    assert leftovers(client, PLACE) == []


def test_placement_policies_are_found_by_their_description_or_by_what_the_record_says(
    google: Any, client: GoogleClient
) -> None:
    marks = " ".join(f"{key}={value}" for key, value in LABELS.items())
    google.placements["a"] = {"name": "a", "description": f"{marks} encamp-deadline=1"}
    google.placements["b"] = {"name": "b"}
    google.placements["digits-1-pool"] = {
        "name": "digits-1-pool",
        "description": "encamp-job=digits-1 encamp-owner=you",
    }
    google.pools["pool"] = {
        "name": "pool",
        "config": {"resourceLabels": LABELS},
        "placementPolicy": {"policyName": "a"},
    }
    found = leftovers(client, replace(PLACE, policies=("b",)))
    # What uses a policy goes before it.
    assert [str(one) for one in found[1:]] == ["placement policy r/a", "placement policy r/b"]
    for one in found:
        one.delete()
    assert list(google.placements) == ["digits-1-pool"]


def test_who_may_act_as_an_account_that_stays_is_found(google: Any, client: GoogleClient) -> None:
    ours, other = "serviceAccount:p.svc.id.goog[jobs/digits-1]", "serviceAccount:p.svc.id.goog[jobs/digits-10]"
    google.policies["sa/given@p"] = {"etag": "0", "bindings": [{"role": "r", "members": [ours, other]}]}
    (found,) = leftovers(client, replace(PLACE, given_accounts=("given@p",)))
    assert str(found) == "binding given@p r digits-1"
    found.delete()
    assert google.policies["sa/given@p"]["bindings"] == [{"role": "r", "members": [other]}]


def test_requests_for_queued_machines_are_listed(client: GoogleClient, kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.put("provisioningrequests", "digits-1-master", LABELS)
    kubernetes.put("podtemplates", "digits-1-master", LABELS)
    kubernetes.put("networkpolicies", "digits-1", LABELS)
    kubernetes.put("podtemplates", "another", {**LABELS, "encamp-owner": "another"})
    kubernetes.put("resourceclaimtemplates", "digits-1-rdma-8", LABELS)
    assert [str(one) for one in leftovers(client, PLACE, cluster)] == [
        "provisioningrequest jobs/digits-1-master",
        "podtemplate jobs/digits-1-master",
        "resourceclaimtemplate jobs/digits-1-rdma-8",
        "networkpolicy jobs/digits-1",
    ]


def test_packages_in_buckets_that_stay_are_deleted_and_what_lies_beside_them_is_not(
    google: Any, client: GoogleClient
) -> None:
    google.add_bucket("artifacts")
    names = ("jobs/digits/packages/0a/trainer.whl", "jobs/digits/packages/notes.txt", "jobs/digits/output/model")
    for name in names:
        google.objects["artifacts", name] = b"x"
    place = replace(PLACE, cluster="", packages=(f"gs://artifacts/{names[0]}", "gs://artifacts/gone.whl"))
    (found,) = leftovers(client, place)
    assert (found.kind, found.name) == ("package", f"gs://artifacts/{names[0]}")
    found.delete()
    assert [name for _, name in google.objects] == list(names[1:])
    assert leftovers(client, place) == []
