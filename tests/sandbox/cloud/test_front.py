"""The REST front as its clients meet it: its own process, plain, TLS and through the proxy."""

from __future__ import annotations

import os
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from click.testing import CliRunner
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from encamp.cli.sandbox import command
from encamp.errors import UsageError
from encamp_sandbox.layout import ROOT_VARIABLE
from encamp_sandbox.project import project_number
from encamp_sandbox.provider import messages
from encamp_sandbox.provider.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result
    from tests.sandbox.cloud.conftest import Processes

pytestmark = pytest.mark.slow


PROJECT = "projects/sandbox-encamp"
CONDITION = (
    'resource.name.startsWith("projects/_/buckets/iam-bucket/objects/jobs/1/") || '
    'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("jobs/1/")'
)


@pytest.fixture
def admin(processes: Processes) -> Iterator[httpx.Client]:
    with processes.client() as client:
        yield client


def test_nothing_without_a_token(processes: Processes) -> None:
    for path in ("/storage/v1/b", "/container/v1/projects/p", "/encamp/v1/faults", "/bucket/object"):
        answer = httpx.get(processes.front + path, trust_env=False)
        assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert httpx.get(f"{processes.front}/healthz", trust_env=False).json() == {"status": "ok"}


def test_a_token_for_the_key_file(processes: Processes) -> None:
    credentials = service_account.Credentials.from_service_account_file(
        str(processes.layout.google_credentials), scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    credentials.refresh(Request())
    with processes.client(credentials.token) as client:
        assert client.get(f"/cloudresourcemanager/v1/{PROJECT}").json()["projectId"] == "sandbox-encamp"
    refused = httpx.post(f"{processes.front}/token", data={"grant_type": "x"}, trust_env=False)
    assert (refused.status_code, refused.json()["error"]) == (400, "unsupported_grant_type")


@pytest.fixture
def shell(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``encamp sandbox`` of this sandbox."""
    monkeypatch.setenv(ROOT_VARIABLE, str(processes.layout.root))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(command, arguments)

    return invoke


def test_a_token_of_somebody_else_and_what_it_is(processes: Processes, shell: Callable[..., Result]) -> None:
    assert shell("token").stdout == f"{processes.layout.token}\n"
    token = shell("token", "--for", "ana@example.com").stdout.strip()
    header, www = {"authorization": f"Bearer {token}"}, {"host": "www.googleapis.com"}
    with httpx.Client(base_url=processes.front, trust_env=False) as client:
        answers = [
            client.post("/tokeninfo", headers=header | {"host": "oauth2.googleapis.com"}),
            client.post("/oauth2/tokeninfo", headers=header),
            client.get("/oauth2/tokeninfo", params={"access_token": token}),
            client.post("/oauth2/v3/tokeninfo", data={"access_token": token}, headers=www),
        ]
        assert [(answer.status_code, answer.json()["email"]) for answer in answers] == [(200, "ana@example.com")] * 4
        nobody = client.get("/oauth2/tokeninfo")
        assert (nobody.status_code, nobody.json()["error"]) == (400, "invalid_token")
    robot = shell("token", "--for", "serviceAccount:ci@p.iam.gserviceaccount.com").stdout.strip()
    for one in (token, robot):
        with processes.client(one) as client:
            assert client.get(f"/cloudresourcemanager/v1/{PROJECT}").status_code == 403
            assert client.post("/encamp/v1/memberTokens", json={"member": "user:b@example.com"}).status_code == 403


@pytest.mark.parametrize("member", ["user:ana", "group:all@example.com", "allUsers:", "user:a@b.c d@e.f", ""])
def test_nobody_gets_a_token_who_is_no_person_and_no_account(shell: Callable[..., Result], member: str) -> None:
    refused = shell("token", "--for", member)
    assert isinstance(refused.exception, UsageError)
    assert "user:ana@example.com" in str(refused.exception)


def test_only_the_sandboxs_project(admin: httpx.Client) -> None:
    for path in ("/container/v1/projects/real/locations/-/clusters", "/iam/v1/projects/real/serviceAccounts"):
        assert admin.get(path).status_code == 403
    assert admin.post("/storage/v1/b", params={"project": "real"}, json={"name": "x-y-z"}).status_code == 403
    assert admin.get("/cloudresourcemanager/v3/projects/real").json()["error"]["status"] == "PERMISSION_DENIED"


def test_services_by_host_over_tls(processes: Processes) -> None:
    context = ssl.create_default_context(cafile=str(processes.layout.ca_certificate))
    port = processes.layout.ports.front_tls
    for host, path, status in (
        ("container.googleapis.com", f"/v1/{PROJECT}/locations/-/clusters", 200),
        ("storage.googleapis.com", "/storage/v1/b", 200),
        ("www.googleapis.com", "/storage/v1/b", 200),
        ("unknown.googleapis.com", "/v1/x", 404),
    ):
        headers = {"host": host, "authorization": f"Bearer {processes.layout.token}"}
        with httpx.Client(verify=context, trust_env=False, headers=headers) as client:
            url = f"https://127.0.0.1:{port}{path}"
            assert client.get(url, extensions={"sni_hostname": host}).status_code == status


def test_unmodified_addresses_through_the_proxy(processes: Processes) -> None:
    context = ssl.create_default_context(cafile=str(processes.layout.ca_certificate))
    proxy = f"http://127.0.0.1:{processes.layout.ports.proxy}"
    headers = {"authorization": f"Bearer {processes.layout.token}"}
    with httpx.Client(verify=context, proxy=proxy, trust_env=False, headers=headers) as client:
        client.post("https://storage.googleapis.com/storage/v1/b", json={"name": "proxy-bucket"})
        upload = "https://www.googleapis.com/upload/storage/v1/b/proxy-bucket/o"
        opened = client.post(upload, params={"uploadType": "resumable", "name": "a b"})
        assert opened.headers["location"].startswith("https://www.googleapis.com/upload/")
        assert client.put(opened.headers["location"], content=b"0123").status_code == 200
        answer = client.get("https://storage.googleapis.com/proxy-bucket/a%20b", headers={"range": "bytes=1-2"})
        assert (answer.status_code, answer.content) == (206, b"12")
        # TensorFlow looks for this spelling.
        assert b"Content-Range" in {name for name, _ in answer.headers.raw}


def service_account_made(port: int, name: str) -> str:
    """Make a service account as the engine does; its e-mail."""
    provider = messages.provider_pb2
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = messages.provider_pb2_grpc.ResourceProviderStub(channel)
        configuration = encode({"project": "sandbox-encamp", "region": "us-central1"})
        stub.Configure(provider.ConfigureRequest(args=configuration, acceptSecrets=True))
        urn = "urn:pulumi:dev::proj::gcp:serviceaccount/account:Account::sa"
        checked = stub.Check(provider.CheckRequest(urn=urn, news=encode({"accountId": name})))
        made = stub.Create(provider.CreateRequest(urn=urn, properties=checked.inputs))
        again = stub.Diff(
            provider.DiffRequest(
                urn=urn, id=made.id, olds=made.properties, news=checked.inputs, old_inputs=checked.inputs
            )
        )
        assert again.changes == provider.DiffResponse.DIFF_NONE
        with pytest.raises(grpc.RpcError, match="Already exists"):
            stub.Create(provider.CreateRequest(urn=urn, properties=checked.inputs))
    return decode(made.properties)["email"]


def test_storage_obeys_iam(processes: Processes, admin: httpx.Client) -> None:
    bucket = {"name": "iam-bucket", "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
    assert admin.post("/storage/v1/b", json=bucket).status_code == 200
    email = service_account_made(processes.layout.ports.gcp_provider, "iam-trainer")
    condition = {"title": "prefix", "expression": CONDITION}
    binding = {"role": "roles/storage.objectUser", "members": [f"serviceAccount:{email}"], "condition": condition}
    policy = {"version": 3, "bindings": [binding]}
    assert admin.put("/storage/v1/b/iam-bucket/iam", json=policy).json()["version"] == 3
    assert admin.put("/storage/v1/b/iam-bucket/iam", json={"etag": "AAAA", "bindings": []}).status_code == 409
    granted = admin.post(f"/iamcredentials/v1/projects/-/serviceAccounts/{email}:generateAccessToken", json={})
    upload, listing = "/upload/storage/v1/b/iam-bucket/o", "/storage/v1/b/iam-bucket/o"
    with processes.client(granted.json()["accessToken"]) as client:
        for name, status in (("jobs/1/a", 200), ("jobs/2/a", 403)):
            media = client.post(upload, params={"uploadType": "media", "name": name}, content=b"x")
            opened = client.post(upload, params={"uploadType": "resumable"}, json={"name": name})
            body = f'--B\r\n\r\n{{"name": "{name}"}}\r\n--B\r\n\r\nx\r\n--B--'
            headers = {"content-type": "multipart/related; boundary=B"}
            parts = client.post(upload, params={"uploadType": "multipart"}, headers=headers, content=body)
            assert [media.status_code, opened.status_code, parts.status_code] == [status] * 3
        assert client.get(listing, params={"prefix": "jobs/1/"}).status_code == 200
        assert client.get(listing).json()["error"]["errors"][0]["reason"] == "forbidden"
        admin.post(upload, params={"uploadType": "media", "name": "jobs/2/secret"}, content=b"x")
        stolen = client.post(f"{listing}/jobs%2F1%2Fz/compose", json={"sourceObjects": [{"name": "jobs/2/secret"}]})
        copied = client.post(f"{listing}/jobs%2F2%2Fsecret/rewriteTo/b/iam-bucket/o/jobs%2F1%2Fz")
        moved = client.post(f"{listing}/jobs%2F2%2Fsecret/moveTo/o/jobs%2F1%2Fz")
        assert [stolen.status_code, copied.status_code, moved.status_code] == [403, 403, 403]
        assert client.post(f"{listing}/jobs%2F1%2Fa/moveTo/o/jobs%2F1%2Fb").json()["name"] == "jobs/1/b"
        for path in ("/encamp/v1/faults", f"/container/v1/{PROJECT}/locations/-/clusters", "/storage/v1/b"):
            assert client.get(path).status_code == 403


def test_a_kubernetes_account_without_a_google_one_is_its_own_principal(
    processes: Processes, admin: httpx.Client
) -> None:
    asked = {"namespace": "jobs", "serviceAccount": "digits"}
    token = admin.post("/encamp/v1/workloadTokens", json=asked).json()["accessToken"]
    with processes.client(token) as client:
        refused = client.get("/storage/v1/b/nobodys/o", params={"prefix": "a/"})
        assert refused.status_code == 403
        assert "svc.id.goog/subject/ns/jobs/sa/digits does not have storage.objects.list" in refused.text
        assert client.post("/encamp/v1/workloadTokens", json=asked).status_code == 403


def test_a_project_goes_by_its_number_too(admin: httpx.Client) -> None:
    number = project_number("sandbox-encamp")
    by_id, by_number = (
        admin.post(f"/cloudresourcemanager/v1/projects/{name}:getIamPolicy", json={})
        for name in ("sandbox-encamp", number)
    )
    assert by_number.status_code == 200
    assert by_number.json() == by_id.json()


def test_logs_are_written_and_found(admin: httpx.Client) -> None:
    entry = {"logName": f"{PROJECT}/logs/t", "textPayload": "hello", "resource": {"type": "k8s_container"}}
    assert admin.post("/logging/v2/entries:write", json={"entries": [entry]}).status_code == 200
    body = {"resourceNames": [PROJECT], "filter": 'resource.type="k8s_container"', "pageSize": 1}
    found = admin.post("/logging/v2/entries:list", json=body).json()["entries"]
    assert found[0]["textPayload"] == "hello"
    assert admin.post("/logging/v2/entries:list", json={"resourceNames": ["projects/other"]}).status_code == 403


def test_faults_are_set_over_the_front(admin: httpx.Client) -> None:
    assert admin.post("/encamp/v1/faults", json={"kind": "nonsense"}).status_code == 400
    fault = {"type": "storage:*", "operation": "create", "kind": "stockout", "count": 2, "name": "*"}
    made = admin.post("/encamp/v1/faults", json=fault)
    assert made.status_code == 201
    number = made.json()["id"]
    assert admin.get("/encamp/v1/faults").json() == {"faults": [{"id": number, **fault, "left": 2, "reached": False}]}
    admin.delete("/encamp/v1/faults")
    assert admin.get("/encamp/v1/faults").json() == {"faults": []}
    assert admin.get(f"/encamp/v1/faults/{number}").status_code == 404


def armed(admin: httpx.Client, **fault: Any) -> str:
    """Set a fault; its path."""
    return f"/encamp/v1/faults/{admin.post('/encamp/v1/faults', json=fault).json()['id']}"


def test_faults_strike_what_is_asked_of_the_front(admin: httpx.Client) -> None:
    admin.post("/storage/v1/b", json={"name": "struck-bucket"})
    upload = {"uploadType": "media", "name": "jobs/1/a"}
    named = "projects/_/buckets/struck-bucket/objects/jobs/1/a"
    fault = armed(admin, type="storage:objects", operation="create", kind="429", name=named)
    note = armed(admin, type="*", operation="*", kind="note", count=100)
    lost = armed(admin, type="storage:objects", operation="delete", kind="lost", name=named)
    codes = [admin.post("/upload/storage/v1/b/struck-bucket/o", params=upload, content=b"x").status_code for _ in "12"]
    assert codes == [429, 200]
    assert admin.get("/storage/v1/b/struck-bucket/o", params={"prefix": "jobs/"}).status_code == 200
    assert admin.delete("/storage/v1/b/struck-bucket/o/jobs%2F1%2Fa").status_code == 504
    assert admin.get("/storage/v1/b/struck-bucket/o/jobs%2F1%2Fa").status_code == 404
    admin.post(f"/cloudresourcemanager/v1/{PROJECT}:getIamPolicy", json={})
    admin.get(f"/container/v1/{PROJECT}/locations/r/clusters/c/nodePools")
    admin.delete(f"/iam/v1/{PROJECT}/serviceAccounts/a@b.c")
    assert [admin.get(path).json()["reached"] for path in (fault, lost)] == [True, True]
    seen = [(one["type"], one["operation"], one["name"]) for one in admin.get(note).json()["struck"]]
    assert seen == [
        ("storage:objects", "create", named),
        ("storage:objects", "read", "projects/_/buckets/struck-bucket/objects/jobs/"),
        ("storage:objects", "delete", named),
        ("storage:objects", "read", named),
        ("cloudresourcemanager:projects", "read", PROJECT),
        ("container:nodePools", "read", f"{PROJECT}/locations/r/clusters/c/nodePools"),
        ("iam:serviceAccounts", "delete", f"{PROJECT}/serviceAccounts/a@b.c"),
    ]
    admin.delete("/encamp/v1/faults")


@pytest.mark.parametrize(("kind", "there"), [("pause", 404), ("pause-after", 200)])
def test_a_paused_call_goes_on_when_its_fault_is_deleted(
    processes: Processes, admin: httpx.Client, kind: str, there: int
) -> None:
    fault = armed(admin, type="storage:buckets", operation="create", kind=kind)
    name = f"bucket-{kind}"
    with processes.client() as client, ThreadPoolExecutor() as pool:
        # A bucket's name stands in the body, so a fault for one is by the project's whole list.
        making = pool.submit(client.post, "/storage/v1/b", json={"name": name})
        while not admin.get(fault).json()["reached"]:
            time.sleep(0.01)
        time.sleep(0.05)
        assert not making.done()
        assert admin.get(f"/storage/v1/b/{name}").status_code == there
        admin.delete(fault)
        assert making.result().status_code == 200


@pytest.mark.slow
def test_everything_survives_a_kill(processes: Processes, admin: httpx.Client) -> None:
    data = os.urandom(3_000_000)
    admin.post("/storage/v1/b", json={"name": "kill-bucket", "labels": {"k": "v"}})
    upload = "/upload/storage/v1/b/kill-bucket/o"
    admin.post(upload, params={"uploadType": "media", "name": "whole"}, content=data)
    location = admin.post(upload, params={"uploadType": "resumable", "name": "part"}).headers["location"]
    admin.put(location, content=data[:1_000_000], headers={"content-range": "bytes 0-999999/3000000"})
    policy = {"bindings": [{"role": "roles/viewer", "members": ["user:a@b.c"]}]}
    admin.post(f"/cloudresourcemanager/v1/{PROJECT}:setIamPolicy", json={"policy": policy})
    for name in ("storage", "cloud"):
        processes.kill(name)
    processes.start("storage", "cloud")
    with processes.client() as client:
        assert client.get("/storage/v1/b/kill-bucket").json()["labels"] == {"k": "v"}
        whole = client.get("/storage/v1/b/kill-bucket/o/whole", params={"alt": "media"})
        assert whole.content == data
        rest = {"content-range": "bytes 1000000-2999999/3000000"}
        assert client.put(location, content=data[1_000_000:], headers=rest).json()["size"] == "3000000"
        shown = client.post(f"/cloudresourcemanager/v1/{PROJECT}:getIamPolicy", json={}).json()
        assert shown["bindings"] == policy["bindings"]


def test_a_dead_storage_server_is_a_503(processes: Processes) -> None:
    processes.kill("storage")
    try:
        with processes.client() as client:
            answer = client.get("/storage/v1/b")
            assert (answer.status_code, answer.json()["error"]["status"]) == (503, "UNAVAILABLE")
    finally:
        processes.start("storage")
