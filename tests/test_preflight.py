"""What is wrong with a job's data is said before anything is made, all of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from encamp.errors import UsageError
from encamp.plan.job import plan_job
from encamp.preflight import check_environment, check_job
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.cloud.rest import GoogleClient
    from encamp.plan.model import JobPlan

ACCOUNT = "trainer@project-1.iam.gserviceaccount.com"
NO = {"error": {"code": 403, "message": "no"}}


def planned(encamp: dict[str, Any] | None = None, queues: dict[str, Any] | None = None, **fields: Any) -> JobPlan:
    written = {"name": "e", "region": "us-central1", "artifactsBucket": "artifacts"}
    environment = parse_environment(
        written | ({"queues": queues} if queues is not None else {}), project="project-1", source="test"
    )
    training_input = {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://packages/trainer.tar.gz"],
        "pythonModule": "trainer.task",
        **fields,
    }
    data = {"jobId": "j", "trainingInput": training_input, "encamp": encamp or {}}
    return plan_job(parse_job(data, source="test").job, environment)


@pytest.fixture
def furnished(google: Any) -> Any:
    for name in ("artifacts", "packages", "results"):
        google.add_bucket(name)
        google.buckets[name]["location"] = "US-CENTRAL1"
    google.objects["packages", "trainer.tar.gz"] = b"trainer"
    return google


def problems(plan: JobPlan, client: GoogleClient) -> str:
    with pytest.raises(UsageError) as caught:
        check_job(plan, client)
    return str(caught.value)


def test_a_job_whose_data_is_there_has_nothing_to_say(furnished: Any, client: GoogleClient) -> None:
    assert check_job(planned(jobDir="gs://results/digits"), client) == ()
    assert {request.method for request in furnished.requests} == {"GET"}


def test_every_problem_is_said_at_once(furnished: Any, client: GoogleClient) -> None:
    furnished.say("GET /storage/v1/b/packages/iam/testPermissions", 200, {})
    plan = planned(jobDir="gs://nothing/digits", packageUris=["gs://packages/gone.whl", "gs://absent/trainer.whl"])
    said = problems(plan, client)
    assert said.startswith("j: 4 problems with the job's data\n")
    assert "there is no bucket gs://nothing for the job dir gs://nothing/digits" in said
    assert "gcloud storage buckets create gs://nothing --location=us-central1" in said
    assert "there is no package gs://packages/gone.whl" in said
    assert "there is no bucket gs://absent for the package gs://absent/trainer.whl" in said
    assert "you may not set the IAM policy of gs://packages" in said


def test_a_given_bucket_is_looked_for_too(furnished: Any, client: GoogleClient) -> None:
    given = {"storage": {"kind": "GIVEN_BUCKET", "bucket": "team-results"}}
    said = problems(planned(given), client)
    assert "there is no bucket gs://team-results for the job dir gs://team-results/j" in said
    furnished.add_bucket("team-results")
    furnished.buckets["team-results"]["location"] = "US"
    assert check_job(planned(given), client) == ()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, f"you may not set the IAM policy of {ACCOUNT}, as which the job's Kubernetes account has to act"),
        (404, f"there is no service account {ACCOUNT}"),
    ],
)
def test_a_given_account_is_there_and_may_be_stood_for(
    furnished: Any, client: GoogleClient, status: int, said: str
) -> None:
    route = f"POST /iam/v1/projects/-/serviceAccounts/{ACCOUNT}:testIamPermissions"
    furnished.say(route, status, {} if status == 200 else {"error": {"code": 404, "message": "no account"}})
    assert said in problems(planned(serviceAccount=ACCOUNT), client)
    assert check_job(planned(), client) == ()


def test_a_kubernetes_account_gets_roles_on_buckets_with_uniform_access_only(
    furnished: Any, client: GoogleClient
) -> None:
    furnished.buckets["results"]["iamConfiguration"] = {"uniformBucketLevelAccess": {"enabled": False}}
    said = problems(planned(jobDir="gs://results/digits"), client)
    assert "gs://results has no uniform bucket-level access" in said
    assert "gcloud storage buckets update gs://results --uniform-bucket-level-access" in said
    assert "mode: SERVICE_ACCOUNT" in said
    assert check_job(planned({"identity": {"mode": "SERVICE_ACCOUNT"}}, jobDir="gs://results/digits"), client) == ()
    assert "uniform" not in problems(planned(jobDir="gs://results/digits", serviceAccount=ACCOUNT), client)


def test_a_bucket_that_may_not_be_looked_at_is_warned_of(furnished: Any, client: GoogleClient) -> None:
    furnished.say("GET /storage/v1/b/results\\?", 403, NO)
    (warning,) = check_job(planned(jobDir="gs://results/digits"), client)
    assert "whether gs://results has uniform bucket-level access cannot be told" in warning


def test_shared_node_pools_are_looked_for(furnished: Any, client: GoogleClient) -> None:
    plan = planned(queues={"default": "team", "teams": {"team": {"quotas": [{"cpu": 64}]}}})
    assert [pool.name for pool in plan.shared_pools] == ["e-n1-standard-4"]
    listing = "GET /container/v1/projects/project-1/locations/us-central1/clusters/encamp/nodePools"
    furnished.say(listing, 200, {"nodePools": [{"name": "encamp-system"}]})
    said = problems(plan, client)
    assert "the environment e has no node pool e-n1-standard-4" in said
    assert "encamp environment up e" in said
    furnished.troubles.clear()
    furnished.say(listing, 200, {"nodePools": [{"name": "encamp-system"}, {"name": "e-n1-standard-4"}]})
    assert check_job(plan, client) == ()
    furnished.troubles.clear()
    furnished.say(listing, 403, NO)
    (warning,) = check_job(plan, client)
    assert warning.startswith("whether the shared node pools are there cannot be told")


def test_what_the_same_program_makes_is_not_looked_for(google: Any, client: GoogleClient) -> None:
    google.add_bucket("packages")
    google.objects["packages", "trainer.tar.gz"] = b"trainer"
    queues = {"default": "team", "teams": {"team": {"quotas": [{"cpu": 64}]}}}
    plan = planned(queues=queues, jobDir="gs://models/digits")
    (pool,) = plan.shared_pools
    cluster = str(pool.shared_in)
    assert "there is no bucket gs://models" in problems(planned(jobDir="gs://models/digits"), client)
    google.requests.clear()
    assert check_job(plan, client, made={"models", "artifacts", cluster}) == ()
    assert not [request for request in google.requests if "models" in request.path]


def test_mounted_buckets_are_looked_for_but_for_the_job_dir(furnished: Any, client: GoogleClient) -> None:
    block = {"storage": {"kind": "ENVIRONMENT"}, "mounts": [{"jobDir": True}, {"bucket": "census-data"}]}
    assert "there is no bucket gs://census-data for the mount /gcs/census-data" in problems(planned(block), client)
    furnished.add_bucket("census-data")
    furnished.buckets["census-data"]["location"] = "EUROPE-WEST4"
    (warning,) = check_job(planned(block), client)
    assert warning.startswith("the mounted bucket gs://census-data is in europe-west4, the job in us-central1")


@pytest.mark.usefixtures("furnished")
def test_a_given_account_must_be_able_to_use_what_is_mounted(client: GoogleClient) -> None:
    mounts = [{"bucket": "results", "write": True}]
    said = problems(planned({"mounts": mounts}, serviceAccount=ACCOUNT), client)
    assert f"{ACCOUNT} has no storage.objects.get, storage.objects.list, storage.objects.create" in said
    assert "on the mount /gcs/results" in said
    assert "--role=roles/storage.objectUser" in said


def test_a_bucket_of_the_jobs_own_is_not_looked_for(furnished: Any, client: GoogleClient) -> None:
    assert check_job(planned({"storage": {"kind": "OWN_BUCKET"}}), client) == ()
    assert not [request for request in furnished.requests if "-results-" in request.path]


def test_a_bucket_elsewhere_is_a_warning_with_both_regions(furnished: Any, client: GoogleClient) -> None:
    furnished.buckets["results"]["location"] = "EUROPE-WEST4"
    (warning,) = check_job(planned(jobDir="gs://results/digits"), client)
    assert "europe-west4" in warning
    assert "us-central1" in warning


def test_a_given_account_that_may_not_write_is_refused_with_the_command_that_helps(
    furnished: Any, client: GoogleClient
) -> None:
    furnished.policies["b/packages"] = {
        "etag": "0",
        "bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}],
    }
    said = problems(planned(jobDir="gs://results/digits", serviceAccount=ACCOUNT), client)
    assert f"{ACCOUNT} has no storage.objects.create on the job dir gs://results/digits" in said
    assert f"gs://results --member=serviceAccount:{ACCOUNT} --role=roles/storage.objectUser" in said


def test_what_cannot_be_told_of_a_given_account_is_a_warning(furnished: Any, client: GoogleClient) -> None:
    furnished.say("GET /storage/v1/b/(results|packages)/iam\\?", 403, NO)
    warnings = check_job(planned(jobDir="gs://results/digits", serviceAccount=ACCOUNT), client)
    assert len(warnings) == 2
    assert all("cannot be told: the IAM policy of gs://" in warning for warning in warnings)


def test_a_given_account_that_may_only_create_is_warned_of(furnished: Any, client: GoogleClient) -> None:
    member = f"serviceAccount:{ACCOUNT}"
    for bucket, role in (("results", "objectCreator"), ("packages", "objectViewer")):
        furnished.policies[f"b/{bucket}"] = {
            "etag": "0",
            "bindings": [{"role": f"roles/storage.{role}", "members": [member]}],
        }
    (warning,) = check_job(planned(jobDir="gs://results/digits", serviceAccount=ACCOUNT), client)
    assert "has no storage.objects.get, storage.objects.list, storage.objects.delete on gs://results" in warning


def test_a_package_that_may_not_be_read_is_a_warning(furnished: Any, client: GoogleClient) -> None:
    furnished.say("GET /storage/v1/b/packages/o/", 403, NO)
    (warning,) = check_job(planned(), client)
    assert "whether gs://packages/trainer.tar.gz is there cannot be told" in warning


@pytest.mark.parametrize(("held", "refused"), [([], False), (["encamp"], False), (["encamp", "other"], True)])
def test_a_sandbox_has_room_for_one_environment(held: list[str], *, refused: bool) -> None:
    class Client:
        def json(self, *_: object) -> dict[str, Any]:
            return {"clusters": [{"name": name} for name in held]}

    client = cast("GoogleClient", Client())
    written = {"name": "e", "region": "us-central1", "artifactsBucket": "artifacts"}
    check_environment(parse_environment(written, project="acme-lab", source="test"), client)
    sandbox = parse_environment(written, project="sandbox-encamp", source="test")
    if not refused:
        check_environment(sandbox, client)
        return
    with pytest.raises(UsageError, match="the cluster other of another environment has it"):
        check_environment(sandbox, client)
