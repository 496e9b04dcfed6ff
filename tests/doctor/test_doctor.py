"""A stack looked at before it is made, against a Google that answers as the test says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from encamp.cloud.rest import GoogleClient
from encamp.doctor.examine import examine
from encamp.doctor.machine import Machine, versions
from encamp.doctor.stack import load_stack
from encamp.errors import UsageError
from encamp.findings import Finding, Grade
from encamp.retries import SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "projects/acme-ml/locations/us-central1/keyRings/encamp/cryptoKeys/state"
QUOTAS = ("CPUS", "NVIDIA_T4_GPUS", "SSD_TOTAL_GB", "INSTANCES")
JOB = """
trainingInput:
  region: us-central1
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  packageUris: ["gs://packages/trainer.tar.gz"]
  pythonModule: trainer.task
  scaleTier: CUSTOM
  masterType: n1-standard-8
  masterConfig: {acceleratorConfig: {count: 2, type: NVIDIA_TESLA_T4}}
"""


@dataclass
class World:
    """A project in which everything is as a stack needs it, until a test says otherwise."""

    google: Any
    client: GoogleClient
    checkout: Path
    denied: set[str] = field(default_factory=set)
    odd: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    limits: dict[str, tuple[float, float]] = field(default_factory=lambda: dict.fromkeys(QUOTAS, (100_000.0, 0.0)))
    environ: dict[str, str] = field(default_factory=dict)
    today: date = date(2026, 9, 1)
    missing: set[str] = field(default_factory=set)
    said: dict[str, str] = field(default_factory=lambda: {"pulumi": "v3.259.0"})

    def stack(self, name: str, *lines: str, secrets: str = f"secretsprovider: gcpkms://{KEY}") -> None:
        text = "\n".join([secrets, "config:", "  gcp:project: acme-ml", *lines])
        (self.checkout / "stacks" / f"Pulumi.{name}.yaml").write_text(text + "\n")

    def environment(self, *more: str, secrets: str = f"secretsprovider: gcpkms://{KEY}") -> None:
        fields = ("name: lab", "region: us-central1", "artifactsBucket: acme-ml-artifacts", *more)
        self.stack("lab", "  encamp:environment:", *(f"    {line}" for line in fields), secrets=secrets)

    def job(self, text: str = JOB) -> None:
        (self.checkout / "job.yaml").write_text(text)
        self.stack("train", "  encamp:environmentStack: lab", "  encamp:job: {file: job.yaml, jobId: j}")

    def findings(self, name: str = "lab") -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        stack = load_stack(name, self.checkout)
        for one in examine(stack, self.checkout, self.client, self.machine(), self.today):
            found.setdefault(one.subject, []).append(one)
        return found

    def machine(self) -> Machine:
        return Machine(
            environ=self.environ,
            which=lambda name: None if name in self.missing else f"/opt/{name}",
            run=lambda argv: self.said.get(Path(argv[0]).name),
        )

    def permissions(self, request: Any) -> tuple[int, Any]:
        asked = request.json()["permissions"]
        if self.odd & set(asked):
            return 400, {"error": {"code": 400, "message": "One or more permissions are not valid."}}
        return 200, {"permissions": [one for one in asked if one not in self.denied]}

    def permissions_of_buckets(self, request: Any) -> tuple[int, Any]:
        return 200, {"permissions": request.query["permissions"]}

    def services(self, _: Any) -> tuple[int, Any]:
        names = {*load_stack("lab", self.checkout).environment.services, "serviceusage.googleapis.com"} - self.off
        return 200, {"services": [{"name": f"projects/1/services/{name}", "state": "ENABLED"} for name in names]}

    def region(self, _: Any) -> tuple[int, Any]:
        listed = [{"metric": name, "limit": most, "usage": used} for name, (most, used) in self.limits.items()]
        return 200, {"name": "us-central1", "quotas": listed}

    def answer(self, pattern: str, status: int, body: Any) -> None:
        """Answer so from now on, whatever was said before."""
        self.google.say(pattern, status, body)
        self.google.troubles.insert(0, self.google.troubles.pop())


@pytest.fixture
def world(google: Any, tmp_path: Path) -> Iterator[World]:
    named = {"SERVICEUSAGE": "su", "CLOUDBILLING": "billing", "CLOUDKMS": "kms", "CLOUDQUOTAS": "quotas"}
    more = {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": f"{google.url}/{path}/" for name, path in named.items()}
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: encamp\nruntime: python\nmain: infra/\n")
    with requests.Session() as session:
        client = GoogleClient(session, environ=google.environ() | more, sleep=lambda _: None, policy=SHORT.at_most(1))
        made = World(google, client, tmp_path)
        made.environ = {
            "PULUMI_BACKEND_URL": "gs://acme-ml-state",
            "HOME": str(tmp_path),
            "ENCAMP_RECORD_URL": "postgresql+psycopg://db/encamp",
        }
        google.buckets["acme-ml-state"] = {
            "name": "acme-ml-state",
            "versioning": {"enabled": True},
            "iamConfiguration": {"publicAccessPrevention": "enforced"},
        }
        google.troubles += [
            (r":testIamPermissions", made.permissions),
            (r"GET /su/v1/projects/acme-ml/services\?", made.services),
            (r"GET /compute/v1/projects/acme-ml/regions/us-central1\?", made.region),
        ]
        google.say(r"GET /crm/v1/projects/acme-ml\?", 200, {"projectNumber": "1", "lifecycleState": "ACTIVE"})
        google.say(r"GET /billing/v1/projects/acme-ml/billingInfo", 200, {"billingEnabled": True})
        google.say(rf"GET /kms/v1/{KEY}\?", 200, {"purpose": "ENCRYPT_DECRYPT", "primary": {"state": "ENABLED"}})
        cluster = {"status": "RUNNING", "currentMasterVersion": "1.35.1-gke.1"}
        google.say(r"GET /container/v1/projects/acme-ml/locations/us-central1/clusters/encamp\?", 200, cluster)
        google.troubles.append((r"/iam/testPermissions\?", made.permissions_of_buckets))
        for bucket in ("packages", "acme-ml-artifacts"):
            google.add_bucket(bucket)
            google.buckets[bucket]["location"] = "US-CENTRAL1"
        google.objects["packages", "trainer.tar.gz"] = b"trainer"
        made.environment()
        yield made


def grades(found: dict[str, list[Finding]]) -> dict[str, Grade]:
    order = list(Grade)
    return {subject: max((one.grade for one in each), key=order.index) for subject, each in found.items()}


def only(found: dict[str, list[Finding]], subject: str) -> Finding:
    return next(one for one in found[subject] if one.grade is not Grade.OK)


@pytest.mark.parametrize("stack", ["lab", "train"])
def test_where_nothing_is_missing_all_is_well(world: World, stack: str) -> None:
    world.job()
    found = world.findings(stack)
    assert set(grades(found).values()) == {Grade.OK}
    assert {
        "credentials",
        "project",
        "billing",
        "APIs",
        "rights",
        "quota",
        "state",
        "secrets",
        "Pulumi",
    } <= found.keys()
    assert ("cluster" in found) == (stack == "train")
    assert not [request for request in world.google.requests if request.method not in {"GET", "POST"}]


def test_every_missing_permission_is_named_with_the_roles_that_hold_them(world: World) -> None:
    world.denied = {"container.clusters.create", "storage.buckets.create", "storage.buckets.setIamPolicy"}
    found = only(world.findings(), "rights")
    assert found.grade is Grade.BAD
    assert "container.clusters.create, storage.buckets.create, storage.buckets.setIamPolicy" in found.text
    assert found.advice == "ask for roles/container.admin, roles/storage.admin"


def test_a_job_needs_no_right_to_make_networks(world: World) -> None:
    world.job()
    world.denied = {"compute.networks.create", "container.clusters.create", "serviceusage.services.enable"}
    assert grades(world.findings())["rights"] is Grade.BAD
    assert grades(world.findings("train"))["rights"] is Grade.OK


def test_what_teams_have_under_conditions_or_in_the_cluster_is_not_missing(world: World) -> None:
    world.environment("access:", "  teams: [{name: vision, members: ['user:ana@example.com'], roles: [ml.developer]}]")
    world.job()
    world.denied = {"container.configMaps.create", "storage.buckets.delete", "iam.serviceAccounts.actAs"}
    found = world.findings("train")
    assert only(found, "rights of teams").text.startswith("3 permissions are given by the environment's teams")
    assert grades(found)["rights"] is Grade.OK
    world.denied |= {"container.clusters.update"}
    assert "container.clusters.update" in only(world.findings("train"), "rights").text


def test_a_permission_that_cannot_be_asked_for_does_not_hide_the_others(world: World) -> None:
    world.odd, world.denied = {"iam.serviceAccounts.actAs"}, {"container.clusters.create"}
    found = world.findings()["rights"]
    assert [one.grade for one in found] == [Grade.BAD, Grade.NOTE]
    assert "1 of " in found[0].text
    assert found[1].text == "these cannot be asked for on the project: iam.serviceAccounts.actAs"


def test_apis_that_are_off_are_turned_on_by_the_environment_and_missed_by_a_job(world: World) -> None:
    world.job()
    world.off = {"container.googleapis.com"}
    assert (note := only(world.findings(), "APIs")).grade is Grade.NOTE
    assert "`pulumi up` turns them on: container.googleapis.com" in note.text
    missed = only(world.findings("train"), "APIs")
    assert (missed.grade, missed.text) == (Grade.BAD, "off: container.googleapis.com")
    assert missed.advice == "gcloud services enable container.googleapis.com --project=acme-ml"
    world.off = {"cloudresourcemanager.googleapis.com"}
    assert only(world.findings(), "APIs").grade is Grade.BAD


def test_quota_that_is_short_is_told_with_what_is_in_use(world: World) -> None:
    world.job()
    world.limits["NVIDIA_T4_GPUS"] = (4.0, 3.0)
    found = only(world.findings("train"), "quota")
    assert (found.grade, found.text) == (
        Grade.BAD,
        "NVIDIA_T4_GPUS in us-central1: 2 are needed, the limit is 4, 3 of them in use",
    )
    del world.limits["NVIDIA_T4_GPUS"]
    assert "does not have it" in only(world.findings("train"), "quota").text


def test_machines_that_can_be_taken_away_draw_on_quotas_of_their_own(world: World) -> None:
    world.job(JOB + "encamp: {provisioning: SPOT}\n")
    world.limits |= {"PREEMPTIBLE_CPUS": (100.0, 0.0), "PREEMPTIBLE_NVIDIA_T4_GPUS": (1.0, 0.0)}
    found = [one.text for one in world.findings("train")["quota"]]
    assert [text.partition(" ")[0] for text in found] == ["PREEMPTIBLE_NVIDIA_T4_GPUS"]


def test_what_the_caller_may_not_see_of_limits_is_no_fault_of_the_project(world: World) -> None:
    world.answer(r"GET /iam/v1/projects/acme-ml/serviceAccounts", 403, {"error": {"code": 403, "message": "no list"}})
    found = only(world.findings(), "service accounts")
    assert (found.grade, found.text.startswith("cannot be told")) == (Grade.NOTE, True)
    assert {"service accounts", "node pools", "IAM policy"} <= world.findings().keys()


H100 = """
trainingInput:
  region: us-central1
  scaleTier: CUSTOM
  masterConfig: {imageUri: gcr.io/p/i}
encamp:
  machines: {master: {gpu: {type: NVIDIA_H100_80GB, count: 8}}}
"""


@pytest.mark.parametrize(("limit", "grade"), [(8, Grade.OK), (7, Grade.BAD)])
def test_quotas_by_family_are_those_of_the_family_and_the_region(world: World, limit: int, grade: Grade) -> None:
    world.job(H100)
    gpus = [
        {"details": {"value": "0"}},
        {"dimensions": {"gpu_family": "NVIDIA_H200"}, "details": {"value": "64"}},
        {
            "dimensions": {"gpu_family": "NVIDIA_H100", "region": "us-central1"},
            "details": {"value": str(limit)},
            "applicableLocations": ["us-central1"],
        },
        {
            "dimensions": {"gpu_family": "NVIDIA_H100", "region": "us-east4"},
            "details": {"value": "99"},
            "applicableLocations": ["us-east4"],
        },
    ]
    world.answer(r"quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region", 200, {"dimensionsInfos": gpus})
    world.answer(r"quotaInfos/CPUS-PER-VM-FAMILY", 200, {"dimensionsInfos": [{"details": {"value": "999"}}]})
    assert grades(world.findings("train"))["quota"] is grade


LOGS = ("storage: {logsBucket: acme-ml-logs}",)


@pytest.mark.parametrize(
    ("lines", "status", "body", "grade"),
    [
        ((), 200, {"listPolicy": {"allowedValues": ["C0123abcd"]}}, None),
        (LOGS, 200, {"listPolicy": {"allValues": "ALLOW"}}, Grade.OK),
        (LOGS, 200, {"listPolicy": {"allowedValues": ["C0123abcd"]}}, Grade.NOTE),
        (LOGS, 403, {"error": {"code": 403, "message": "orgpolicy.policy.get"}}, Grade.NOTE),
    ],
)
def test_an_organization_that_keeps_others_out_is_told_before_a_bucket_of_logs(
    world: World, lines: tuple[str, ...], status: int, body: Any, grade: Grade | None
) -> None:
    world.environment(*lines)
    world.answer(r"POST /crm/v1/projects/acme-ml:getEffectiveOrgPolicy", status, body)
    found = world.findings()
    assert grades(found).get("members") is grade
    if grade is Grade.NOTE:
        assert "storage.logsBucket" in only(found, "members").advice


def test_without_credentials_google_is_not_asked_for_the_rest(world: World) -> None:
    world.answer(r"GET /crm", 401, {"error": {"code": 401, "message": "invalid credentials"}})
    found = world.findings()
    assert grades(found)["credentials"] is Grade.BAD
    assert "gcloud auth application-default login" in only(found, "credentials").advice
    assert not {"APIs", "rights", "quota", "state", "secrets"} & found.keys()
    world.environment(secrets=SALT)
    world.environ["PULUMI_BACKEND_URL"] = "file:///dev/null/x"
    assert {"Pulumi", "state", "secrets"} <= world.findings().keys()


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (404, {"error": {"code": 404, "message": "gone"}}, "correct gcp:project"),
        (
            403,
            {"error": {"code": 403, "message": "enable cloudresourcemanager.googleapis.com first"}},
            "gcloud services enable cloudresourcemanager.googleapis.com serviceusage.googleapis.com --project=acme-ml",
        ),
        (200, {"lifecycleState": "DELETE_REQUESTED"}, "gcloud projects undelete acme-ml"),
    ],
)
def test_a_project_that_cannot_be_used_is_told(world: World, status: int, body: Any, advice: str) -> None:
    world.answer(r"GET /crm", status, body)
    found = only(world.findings(), "project")
    assert found.grade is Grade.BAD
    assert found.advice.startswith(advice)


def test_a_project_that_nobody_pays_for_is_told(world: World) -> None:
    world.answer(r"billingInfo", 200, {})
    assert only(world.findings(), "billing").grade is Grade.BAD
    world.answer(r"billingInfo", 403, {"error": {"code": 403, "message": "no"}})
    assert only(world.findings(), "billing").grade is Grade.NOTE


def test_a_job_without_its_environments_cluster_is_told_what_comes_first(world: World) -> None:
    world.job()
    world.answer(r"GET /container", 404, {"error": {"code": 404, "message": "gone"}})
    assert only(world.findings("train"), "cluster").advice.startswith("bring the environment up first")
    world.answer(r"GET /container", 200, {"status": "RECONCILING"})
    assert only(world.findings("train"), "cluster").grade is Grade.NOTE


def test_a_jobs_data_is_looked_at_as_before_a_run(world: World) -> None:
    world.job()
    assert "data" not in world.findings()
    world.google.objects.clear()
    assert "there is no package gs://packages/trainer.tar.gz" in only(world.findings("train"), "data").text


def test_a_record_that_nobody_else_sees_is_told(world: World) -> None:
    assert world.findings()["record"][0].text == "a postgresql database that a team shares"
    del world.environ["ENCAMP_RECORD_URL"]
    assert only(world.findings(), "record").grade is Grade.NOTE


def test_prices_that_are_old_or_of_elsewhere_are_told(world: World) -> None:
    world.today = date(2027, 1, 27)
    assert "181 days old" in only(world.findings(), "prices").text
    world.environment("zones: [europe-west4-a]")
    text = (world.checkout / "stacks" / "Pulumi.lab.yaml").read_text()
    (world.checkout / "stacks" / "Pulumi.lab.yaml").write_text(text.replace("us-central1\n", "europe-west4\n"))
    world.answer(r"GET /compute/v1/projects/acme-ml/regions/europe-west4", 200, {"quotas": []})
    assert "but the environment is in europe-west4" in only(world.findings(), "prices").text


def test_what_cannot_be_looked_at_is_told_and_the_rest_is_looked_at(world: World) -> None:
    world.answer(r"GET /su/", 403, {"error": {"code": 403, "message": "permission serviceusage.services.list"}})
    found = world.findings()
    assert only(found, "APIs").text.endswith("403: permission serviceusage.services.list")
    assert grades(found)["quota"] is Grade.OK


STATE: list[tuple[Callable[[World], object], Grade, str]] = [
    (lambda world: world.google.buckets.clear(), Grade.BAD, "there is no bucket gs://acme-ml-state"),
    (lambda world: world.google.buckets["acme-ml-state"].pop("versioning"), Grade.NOTE, "keeps no older versions"),
    (lambda world: world.google.buckets["acme-ml-state"].pop("iamConfiguration"), Grade.NOTE, "may be made public"),
    (lambda world: world.environ.pop("PULUMI_BACKEND_URL"), Grade.BAD, "no backend is chosen"),
    (lambda world: world.environ.update(PULUMI_BACKEND_URL="file://~"), Grade.NOTE, "is on this machine"),
    (lambda world: world.environ.update(PULUMI_BACKEND_URL="file:///dev/null/x"), Grade.BAD, "cannot be written"),
    (lambda world: world.environ.update(PULUMI_BACKEND_URL="https://api.pulumi.com"), Grade.BAD, "no token"),
    (lambda world: world.environ.update(PULUMI_BACKEND_URL="s3://b"), Grade.NOTE, "not looked at"),
]


@pytest.mark.parametrize(("change", "grade", "text"), STATE)
def test_a_state_that_cannot_be_kept_or_may_be_lost_is_told(
    world: World, change: Callable[[World], object], grade: Grade, text: str
) -> None:
    change(world)
    found = only(world.findings(), "state")
    assert (found.grade, text in found.text) == (grade, True), found


def test_a_service_that_was_logged_in_to_has_its_token(world: World) -> None:
    url = "https://api.pulumi.com"
    (world.checkout / ".pulumi").mkdir()
    kept = {"current": url, "accessTokens": {url: "pul-x"}}
    (world.checkout / ".pulumi" / "credentials.json").write_text(json.dumps(kept))
    del world.environ["PULUMI_BACKEND_URL"]
    assert grades(world.findings())["state"] is Grade.OK


SALT = "encryptionsalt: v1:x:v1:y:z"
SECRETS: list[tuple[str, dict[str, str], Grade, str]] = [
    ("", {}, Grade.OK, "the backend's own provider"),
    (SALT, {}, Grade.BAD, "none is set"),
    (SALT, {"PULUMI_CONFIG_PASSPHRASE": "x"}, Grade.NOTE, "nobody sees who did"),
    (SALT, {"PULUMI_CONFIG_PASSPHRASE_FILE": "/no/such"}, Grade.BAD, "there is no file"),
    ("secretsprovider: awskms://x", {}, Grade.NOTE, "not looked at"),
]


@pytest.mark.parametrize(("config", "environ", "grade", "text"), SECRETS)
def test_secrets_that_could_not_be_read_again_are_told(
    world: World, config: str, environ: dict[str, str], grade: Grade, text: str
) -> None:
    world.environment(secrets=config)
    world.environ |= environ
    found = world.findings()
    assert grades(found)["secrets"] is grade
    assert text in found["secrets"][0].text


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (404, {}, "there is no key"),
        (200, {"primary": {"state": "DISABLED"}}, "is DISABLED"),
        (200, {"purpose": "MAC"}, "is for MAC"),
    ],
)
def test_a_key_of_secrets_that_cannot_be_used_is_told(world: World, status: int, body: Any, text: str) -> None:
    world.answer(rf"GET /kms/v1/{KEY}\?", status, body)
    found = only(world.findings(), "secrets")
    assert (found.grade, text in found.text) == (Grade.BAD, True)


def test_a_key_that_the_caller_may_not_use_is_told(world: World) -> None:
    world.denied = {"cloudkms.cryptoKeyVersions.useToDecrypt"}
    assert "you may not cloudkms.cryptoKeyVersions.useToDecrypt" in only(world.findings(), "secrets").text


def test_an_environments_own_key_is_looked_at_where_it_exists_already(world: World) -> None:
    name = KEY.replace("state", "data")
    world.environment(f"encryption: {{key: {name}}}")
    world.answer(rf"GET /kms/v1/{name}\?", 404, {})
    assert f"there is no key {name}" in only(world.findings(), "key").text


@pytest.mark.parametrize(
    ("missing", "said", "subject", "text"),
    [
        ({"pulumi", "pulumi-language-python"}, "", "Pulumi", "not on PATH"),
        (set(), "v3.100.0", "Pulumi", "older than 3.232.0"),
        (set(), "", "Pulumi", "does not say its version"),
        ({"pulumi-language-python"}, "v3.259.0", "language host", "neither on PATH nor beside"),
        ({"gke-gcloud-auth-plugin"}, "v3.259.0", "GKE credentials", "no cluster can be reached"),
    ],
)
def test_programs_that_are_missing_or_too_old_are_told(missing: set[str], said: str, subject: str, text: str) -> None:
    machine = Machine(
        environ={}, which=lambda name: None if name in missing else f"/opt/{name}", run=lambda _: said or None
    )
    found = {one.subject: one for one in versions(machine)}
    assert (found[subject].grade, text in found[subject].text) == (Grade.BAD, True)
    assert found[subject].advice


def test_a_stack_that_is_not_there_names_those_that_are(world: World) -> None:
    with pytest.raises(UsageError, match="known: lab"):
        load_stack("nowhere", world.checkout)
    world.stack("odd", "  encamp:job: {file: job.yaml}")
    with pytest.raises(UsageError, match="neither encamp:environment"):
        load_stack("odd", world.checkout)
