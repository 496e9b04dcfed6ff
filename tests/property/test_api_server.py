"""The real API server takes what we render: a strict dry run of each object, and of the Jobs that a JobSet makes."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.job_cases import job_case, planned_cases
from tests.plan.planned import plan_case

from encamp.cloud.kubeconfig import api_client
from encamp.plan.environment.api import ApiPlan, api_objects
from encamp.plan.environment.driver import STARTED_BY_ACCOUNT, DriverPlan, admissions, driver_job, driver_secret
from encamp.plan.environment.planning import plan_environment
from encamp.plan.manifests.job import render_manifests
from encamp.plan.trial import trial_job_set
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.camp import Camp
    from tests.property.conftest import Property

pytestmark = pytest.mark.sandbox

CASES = planned_cases()
REAPER = Path(__file__).parents[1] / "components" / "golden" / "reaper.yaml"
CRON_JOB = "kubernetes:batch/v1:CronJob reaper"
#: Pulumi's mocks give every number as one with a point; the kubernetes provider sends whole ones whole.
WHOLE = re.compile(r"\b(\d+)\.0\b")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BUSY_SECONDS = 60
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(scope="module")
def api(shared_camp: Camp) -> Iterator[httpx.Client]:
    # JobSets are asked for at Kueue too, as in an environment with queues.
    shared_camp.encamp("sandbox", "up", "--queues")
    client = api_client(shared_camp.layout.kubeconfig.read_text())
    yield client
    client.close()


def refusals(api: httpx.Client, stream: str) -> list[str]:
    """What the server says against any object of a stream that it reads itself; a JobSet's Jobs are tried too."""
    texts = [text for text in re.split(r"^---\n", stream, flags=re.MULTILINE) if text]
    found: list[str] = []
    for text in texts:
        (meant,) = yaml.load_all(text, Loader=LOADER)
        trial = trial_of(meant)
        if trial is not None:
            # Goldens show what a study holds as data; the cluster has it as text.
            meant["data"] = {name: json.dumps(value) for name, value in meant["data"].items()}
            found += refusals(api, json.dumps(trial))
        read = taken(api, meant, text if trial is None else json.dumps(meant), "application/yaml", found)
        if read is not None and read.get("spec", {}).get("replicatedJobs"):
            assert words(read) == words(meant)
        for job in jobs_of(meant):
            taken(api, job, json.dumps(job), "application/json", found)
    return found


def trial_of(item: dict[str, Any]) -> dict[str, Any] | None:
    """The first trial of a study's object, None of any other object."""
    template = item.get("data", {}).get("trial.json") if item["kind"] == "ConfigMap" else None
    if template is None:
        return None
    whole = json.loads(template) if isinstance(template, str) else template
    owner = {"owner_name": item["metadata"]["name"], "owner_uid": "00000000-0000-0000-0000-000000000000"}
    return trial_job_set(whole, 1, {"rate": "0.5", "word": "$(HOME) 'x'"}, **owner, seconds=60, deadline="1")


def _plural(kind: str) -> str:
    return f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s"


def taken(api: httpx.Client, item: dict[str, Any], body: str, form: str, found: list[str]) -> dict[str, Any] | None:
    """The object as the server would keep it; a refusal or a warning goes to ``found``."""
    group = item["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    place = "" if item["kind"] == "Namespace" else f"/namespaces/{item['metadata']['namespace']}"
    path = f"{root}{place}/{_plural(item['kind'])}"
    answer = answered(lambda: api.post(path, params=STRICT, content=body.encode(), headers={"Content-Type": form}))
    if not answer.is_success or "warning" in answer.headers:
        name = f"{item['kind']} {item['metadata']['name']}"
        found.append(f"{name}: {answer.status_code} {answer.text} {answer.headers.get('warning')}")
        return None
    kept: dict[str, Any] = answer.json()
    return kept


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The server's answer, however long it and its webhooks take on a busy machine: a dry run can be asked again."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        late = time.monotonic() > end
        try:
            answer = ask()
        except httpx.TransportError:
            if late:
                raise
        else:
            if late or not answer.is_server_error:
                return answer
        time.sleep(0.5)


def words(job_set: dict[str, Any]) -> list[Any]:
    """Command, arguments and variables of each role."""
    pods = [each["template"]["spec"]["template"]["spec"] for each in job_set["spec"]["replicatedJobs"]]
    containers = [pod["containers"][0] for pod in pods]
    return [
        (one.get("command"), one.get("args"), [(each["name"], each.get("value")) for each in one["env"]])
        for one in containers
    ]


def jobs_of(job_set: dict[str, Any]) -> list[dict[str, Any]]:
    """The Jobs that the JobSet controller makes; only there the server reads the pods."""
    if job_set["kind"] != "JobSet":
        return []
    name, namespace = job_set["metadata"]["name"], job_set["metadata"]["namespace"]
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**each["template"]["metadata"], "name": f"{name}-{each['name']}-0", "namespace": namespace},
            "spec": each["template"]["spec"],
        }
        for each in job_set["spec"]["replicatedJobs"]
    ]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(st.data())
def test_any_job_is_taken(properties: Property, api: httpx.Client, data: st.DataObject) -> None:
    plan = properties.plan(data.draw(properties.jobs))
    assert refusals(api, render_manifests(plan).to_yaml()) == []


@pytest.mark.parametrize("name", CASES)
def test_a_cases_manifests_are_taken(api: httpx.Client, name: str) -> None:
    assert refusals(api, plan_case(CASES[name]).manifests.to_yaml()) == []


def test_what_runs_encamp_in_a_cluster_is_taken(api: httpx.Client) -> None:
    plan = DriverPlan(
        "default", "d@p.iam.gserviceaccount.com", "gcr.io/p/encamp:1", "gs://state", "record", {"a": "b"}, "c"
    )
    job = driver_job(plan, "prod", "census_1", "census-1a2b3c4d")
    secret = driver_secret(plan, "census-1a2b3c4d", "{}", "00000000-0000-0000-0000-000000000000")
    reaper = json.loads(WHOLE.sub(r"\1", json.dumps(yaml.safe_load(REAPER.read_text())[CRON_JOB])))
    reaper["metadata"]["namespace"] = "default"
    assert refusals(api, yaml.safe_dump_all([job, secret, reaper], explicit_start=True)) == []


def test_the_jobs_api_is_taken_where_pods_are_restricted_and_may_little(api: httpx.Client) -> None:
    written = yaml.safe_load((REAPER.parents[1] / "environments" / "with-an-api.yaml").read_text())
    found = plan_environment(parse_environment(written, project=None, source="x")).api
    assert found is not None
    plan = replace(found, drivers="default", jobs="kube-public", networks=(*found.networks, "2001:db8::/32"))
    namespace, *others = api_objects(plan, "prod")
    assert refusals(api, json.dumps(namespace)) == []
    assert api.post("/api/v1/namespaces", json=namespace).is_success
    made = [f"/api/v1/namespaces/{plan.name}"]
    try:
        assert refusals(api, yaml.safe_dump_all(others, explicit_start=True)) == []
        for one in others:
            if one["kind"] in {"ServiceAccount", "Role", "RoleBinding"}:
                root = f"/apis/{one['apiVersion']}" if "/" in one["apiVersion"] else "/api/v1"
                path = f"{root}/namespaces/{one['metadata']['namespace']}/{_plural(one['kind'])}"
                assert api.post(path, json=one).is_success
                made.append(f"{path}/{one['metadata']['name']}")
        # A Deployment beyond what its namespace allows is taken with a warning; its pod would not be.
        template = next(one for one in others if one["kind"] == "Deployment")["spec"]["template"]
        metadata = {**template["metadata"], "name": "api", "namespace": plan.name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        assert refusals(api, json.dumps(pod)) == []
        assert allowed(api, f"system:serviceaccount:{plan.name}:{plan.name}", plan) == ALLOWED
    finally:
        for path in reversed(made):
            assert api.delete(path).is_success


#: Of what the jobs API might ask of the cluster: verb, group and resource, and in whose namespace.
ASKED = [
    (verb, group, resource, where)
    for where in ("drivers", "jobs", "name")
    for group, resource in (("batch", "jobs"), ("", "secrets"), ("", "pods"), ("", "pods/log"), ("", "pods/exec"))
    for verb in ("create", "delete", "get", "list", "patch", "update")
]
ALLOWED = {
    ("create", "batch", "jobs", "drivers"),
    ("delete", "batch", "jobs", "drivers"),
    ("get", "batch", "jobs", "drivers"),
    ("create", "", "secrets", "drivers"),
    ("get", "", "pods", "jobs"),
    ("list", "", "pods", "jobs"),
    ("get", "", "pods/log", "jobs"),
}


def allowed(api: httpx.Client, user: str, plan: ApiPlan) -> set[tuple[str, str, str, str]]:
    """What of ``ASKED`` the server lets a user do."""
    found = set()
    for verb, group, resource, where in ASKED:
        name, _, below = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": name, "namespace": getattr(plan, where)}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {**attributes, "subresource": below}},
        }
        answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
        if answer.raise_for_status().json()["status"]["allowed"]:
            found.add((verb, group, resource, where))
    return found


TAMPERED: tuple[Any, ...] = (
    lambda pod: pod["containers"][0].update(image="evil"),
    lambda pod: pod["containers"][0].update(command=["sh", "-c", "env"]),
    lambda pod: pod["containers"][0].update(lifecycle={"postStart": {"exec": {"command": ["env"]}}}),
    lambda pod: pod["containers"][0]["env"].append({"name": "PYTHONPATH", "value": "/job"}),
    lambda pod: pod["containers"][0]["env"][0].update(value="gs://elsewhere"),
    lambda pod: pod["containers"][0]["volumeMounts"][0].update(mountPath="/encamp/infra"),
    lambda pod: pod["volumes"][0]["secret"].update(secretName="another"),
    # Files beside the job would be a trainer's folder, whose build file the driver runs.
    lambda pod: pod["volumes"][0]["secret"].pop("items"),
    lambda pod: pod.update(initContainers=[{"name": "first", "image": "evil"}]),
    lambda pod: pod.update(serviceAccountName="default"),
    lambda pod: pod["containers"][0]["env"].append(STARTER),
    lambda pod: pod["containers"][0]["env"].extend([{**STARTER, "value": ""}, STARTER]),
)
#: Somebody else than who asks the server.
STARTER = {"name": STARTED_BY_ACCOUNT, "value": "victim@example.com"}


def as_somebody(api: httpx.Client, user: str, job: dict[str, Any], account: str) -> str:
    """What the server says of a hand-over by a user that names an account."""
    named = json.loads(json.dumps(job))
    named["spec"]["template"]["spec"]["containers"][0]["env"].append({**STARTER, "value": account})
    headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    path = f"/apis/batch/v1/namespaces/{job['metadata']['namespace']}/jobs?dryRun=All"
    answer = api.post(path, json=named, headers=headers)
    return "" if answer.is_success else str(answer.json()["message"])


def test_a_namespace_of_drivers_takes_drivers_alone(api: httpx.Client, until: Callable[..., Any]) -> None:
    written = yaml.safe_load((REAPER.parents[1] / "environments" / "with-drivers.yaml").read_text())
    plan = plan_environment(parse_environment(written, project=None, source="x")).driver
    assert plan is not None
    declared = yaml.safe_load(REAPER.with_name("driver.yaml").read_text())
    made = [f"/api/v1/namespaces/{plan.name}"]
    assert api.post("/api/v1/namespaces", json=declared["kubernetes:core/v1:Namespace driver"]).is_success
    for kind, path in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ):
        item = declared[f"kubernetes:admissionregistration.k8s.io/v1:{kind} drivers-only"]
        root = f"/apis/{item['apiVersion']}/{path}"
        answer = api.post(root, json=item)
        assert answer.is_success, answer.text
        made.append(f"{root}/{plan.name}")
    good = driver_job(plan, "prod", "census_1", "census-1a2b3c4d")

    def said(tamper: Callable[[dict[str, Any]], object]) -> str:
        job = json.loads(json.dumps(good))
        tamper(job["spec"]["template"]["spec"])
        return "".join(refusals(api, yaml.safe_dump(job)))

    until(lambda: "ValidatingAdmissionPolicy" in said(TAMPERED[0]), 30)
    assert refusals(api, yaml.safe_dump(good)) == []
    assert [number for number, tamper in enumerate(TAMPERED) if "denied request: a driver" not in said(tamper)] == []
    assert as_somebody(api, "ana@example.com", good, "ana@example.com") == ""
    assert "no account but that of who" in as_somebody(api, "ana@example.com", good, "bob@example.com")
    assert "no account but that of who" in as_somebody(api, "ana@example.com", good, "ana@example.com.evil")
    # Where there is a jobs API, it hands over for others, and nobody with a name like its own does.
    speaker = "system:serviceaccount:lab-api:lab-api"
    assert "no account but that of who" in as_somebody(api, speaker, good, "bob@example.com")
    validations = [vars(each) for each in admissions(replace(plan, speaks_for_others=speaker))]
    kind = {"Content-Type": "application/merge-patch+json"}
    assert api.patch(made[1], json={"spec": {"validations": validations}}, headers=kind).is_success
    until(lambda: as_somebody(api, speaker, good, "bob@example.com") == "", 30)
    assert "no account but that of who" in as_somebody(api, f"{speaker}2", good, "bob@example.com")
    for path in reversed(made):
        assert api.delete(path).is_success


def test_what_is_wrong_is_refused(api: httpx.Client) -> None:
    job_set = plan_case(job_case("basic-bare")).manifests.job_set
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["unheardOf"] = 1
    assert "unheardOf" in "".join(refusals(api, yaml.safe_dump(job_set)))
