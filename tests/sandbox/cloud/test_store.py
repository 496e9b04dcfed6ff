"""What the cloud keeps: resources, policies, tokens, and who may do what."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.auth import jwt
from google.auth.crypt import RSASigner

from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.iam.conditions import Attributes, ConditionError, holds
from encamp_sandbox.cloud.iam.policies import Binding, bucket_policy_name
from encamp_sandbox.cloud.services.iam.service import workload_principal
from encamp_sandbox.cloud.tokens import KeyFile, Principal, Tokens

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

pytestmark = pytest.mark.slow

POLICY = "projects/_/buckets/b"
WRITER = """
import sys
from pathlib import Path
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.iam.policies import Binding
from encamp_sandbox.layout import Layout
cloud = Cloud.open(Path(sys.argv[1]), "p", Layout.create(Path(sys.argv[2])))
members = []
for number in range(10**9):
    with cloud.database.transaction():
        cloud.store.create("network", f"projects/p/global/networks/n{number}", {"n": number})
        members.append(f"user:u{number}@x.y")
        cloud.policies.replace("projects/p", [Binding("roles/viewer", tuple(members))])
    print(number, flush=True)
"""


def bind(cloud: Cloud, resource: str, role: str, member: str, condition: dict[str, str] | None = None) -> None:
    """Bind a role beside what is bound."""
    bindings = [*cloud.policies.bindings(resource), Binding(role, (member,), condition)]
    cloud.policies.replace(resource, bindings)


def test_a_name_is_taken_once_and_free_again(cloud: Cloud) -> None:
    made = cloud.store.create("network", "projects/p/global/networks/n", {"labels": {"k": "v"}})
    with pytest.raises(GoogleError, match="Already exists") as refused:
        cloud.store.create("network", made.name, {})
    assert refused.value.code == 409
    cloud.store.delete(made.name)
    assert made.labels == {"k": "v"}
    assert cloud.store.create("network", made.name, {}).labels == {}


def test_an_etag_guards_a_change(cloud: Cloud) -> None:
    made = cloud.store.create("network", "projects/p/global/networks/n", {"a": 1})
    changed = cloud.store.update(made.name, {"a": 2}, etag=made.etag)
    with pytest.raises(GoogleError, match="etag"):
        cloud.store.update(made.name, {"a": 3}, etag=made.etag)
    assert (cloud.store.get(made.name).body, changed.etag != made.etag) == ({"a": 2}, True)


def test_what_lies_below_goes_too(cloud: Cloud) -> None:
    for name in ("c", "c/nodePools/p", "c2"):
        cloud.store.create("x", f"projects/p/clusters/{name}", {})
    bind(cloud, "projects/p/clusters/c", "roles/viewer", "user:a@b.c")
    cloud.store.delete("projects/p/clusters/c")
    assert [item.short_name for item in cloud.store.all_of("x")] == ["c2"]
    assert cloud.policies.bindings("projects/p/clusters/c") == []


def test_a_killed_writer_leaves_whole_changes(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "cloud.sqlite3"
    infra = Path(__file__).parents[3] / "infra"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(tmp_path / "sb")],
        env={"PYTHONPATH": str(infra)},
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout
        last = 0
        while last < 20:
            last = int(writer.stdout.readline())
        writer.kill()
    cloud = Cloud.open(path, "p", layout)
    networks = cloud.store.all_of("network")
    members = cloud.policies.bindings("projects/p")[0].members
    cloud.close()
    assert len(networks) == len(members) > last


def test_concurrent_policy_changes_are_noticed(cloud: Cloud) -> None:
    etag = cloud.policies.show(POLICY)["etag"]
    cloud.policies.replace(POLICY, [Binding("roles/viewer", ("user:a@b.c",))], etag=etag)
    with pytest.raises(GoogleError, match="concurrent policy changes"):
        cloud.policies.replace(POLICY, [], etag=etag)


PREFIX = 'resource.name.startsWith("projects/_/buckets/b/objects/jobs/1/")'
LISTING = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("jobs/1/")'


@pytest.mark.parametrize(
    ("expression", "name", "prefix", "expected"),
    [
        (PREFIX, "projects/_/buckets/b/objects/jobs/1/x", "", True),
        (PREFIX, "projects/_/buckets/b/objects/jobs/10/x", "", False),
        (PREFIX, "projects/_/buckets/b", "jobs/1/", False),
        (f"{PREFIX} || {LISTING}", "projects/_/buckets/b", "jobs/1/", True),
        (f"{PREFIX} || {LISTING}", "projects/_/buckets/b", "", False),
        (f'!({PREFIX}) && resource.type == "t"', "other", "", True),
        ('request.time < timestamp("2000-01-01T00:00:00Z")', "", "", False),
        ("resource.name.endsWith('/x')", "a/x", "", True),
        ('resource.name.extract("-scratch-{id}") == "7"', "projects/_/buckets/j-scratch-7", "", True),
        ('resource.name.extract("-scratch-{id}/objects/") == "7"', "b/j-scratch-7/objects/x", "", True),
        ('resource.name.extract("-scratch-{id}/objects/") != ""', "b/other/objects/j-scratch-7", "", False),
        ('resource.name.extract("{all}") == "a"', "a", "", True),
        (
            'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", []).hasOnly(["roles/a", "roles/b"])',
            "",
            "",
            True,
        ),
        ('["a"].hasOnly(["b", "a"])', "", "", True),
        ('["a", "c"].hasOnly(["b", "a"])', "", "", False),
    ],
)
def test_conditions(expression: str, name: str, prefix: str, expected: bool) -> None:
    assert holds(expression, Attributes(name, "t", prefix)) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "resource.name",
        "resource.name.matches('x')",
        "(" * 99,
        "1 == 1",
        "true &&",
        '"a" < true',
        '["a"].hasOnly("a")',
    ],
)
def test_unreadable_conditions_are_refused(expression: str) -> None:
    with pytest.raises(ConditionError):
        holds(expression, Attributes("", ""))


def test_storage_roles(cloud: Cloud) -> None:
    who = Principal("t@sandbox-encamp.iam.gserviceaccount.com", admin=False)
    allows = cloud.access.allows_storage
    assert not allows(who, "storage.objects.get", "b", "x")
    bind(cloud, POLICY, "roles/storage.objectCreator", who.member)
    assert allows(who, "storage.objects.create", "b", "x")
    assert not allows(who, "storage.objects.delete", "b", "x")
    assert not allows(who, "storage.objects.create", "other", "x")
    bind(cloud, POLICY, "roles/storage.objectAdmin", who.member, {"title": "t", "expression": PREFIX})
    assert allows(who, "storage.objects.delete", "b", "jobs/1/x")
    assert not allows(who, "storage.objects.delete", "b", "jobs/2/x")
    assert not allows(who, "storage.buckets.get", "b")


def assertion(layout: Layout, **changes: object) -> str:
    key = json.loads(layout.google_credentials.read_text())
    claims = {"iss": key["client_email"], "aud": "x", "iat": time.time(), "exp": time.time() + 60, **changes}
    return jwt.encode(RSASigner.from_string(key["private_key"]), claims).decode()


def test_tokens_for_assertions(cloud: Cloud, layout: Layout) -> None:
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    given = tokens.exchange(assertion(layout))["access_token"]
    again = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    assert again.principal(f"Bearer {given}").admin
    assert given not in {value for row in cloud.database.all("SELECT * FROM tokens") for value in tuple(row)}
    email = "t@sandbox-encamp.iam.gserviceaccount.com"
    assert tokens.principal(f"Bearer {tokens.issue(email)[0]}") == Principal(email, admin=False)
    for bad in (None, "Bearer ", "Basic x", f"Bearer {given}x", f"Bearer {tokens.issue(email, -1)[0]}"):
        with pytest.raises(GoogleError, match="invalid authentication"):
            tokens.principal(bad)


def test_the_token_service_says_whose_a_token_is(cloud: Cloud, layout: Layout) -> None:
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    ana = tokens.info(tokens.issue("user:ana@example.com", 60)[0])
    assert (ana["email"], ana["email_verified"], ana["aud"]) == (
        "ana@example.com", "true", "32555940559.apps.googleusercontent.com",
    )  # fmt: skip
    assert 50 < int(ana["expires_in"]) <= 60
    assert abs(int(ana["exp"]) - time.time()) < 61
    assert "https://www.googleapis.com/auth/cloud-platform" in ana["scope"].split()
    robot = tokens.info(tokens.issue("ci@sandbox-encamp.iam.gserviceaccount.com")[0])
    assert robot["aud"] == robot["azp"] == robot["sub"]
    assert robot["aud"].isdigit()
    owner = json.loads(layout.google_credentials.read_text())["client_email"]
    assert {tokens.info(token)["email"] for token in (layout.token, assertion(layout))} == {owner}
    cloud_platform = "https://www.googleapis.com/auth/cloud-platform"
    narrow = tokens.exchange(assertion(layout, scope=cloud_platform))["access_token"]
    # Whose a token is, is told to who asked for that too.
    assert tokens.info(narrow)["scope"] == cloud_platform
    assert "email" not in tokens.info(narrow)
    federated = tokens.issue(workload_principal("sandbox-encamp", "jobs", "digits"))[0]
    for bad in ("", "ya29.x", "a.b.c", federated, tokens.issue("user:ana@example.com", -1)[0]):
        with pytest.raises(GoogleError, match="Invalid Value") as refused:
            tokens.info(bad)
        assert (refused.value.code, refused.value.reason) == (400, "invalid_token")


def test_a_user_has_what_is_bound_to_them_and_not_to_an_account_of_that_name(cloud: Cloud, layout: Layout) -> None:
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    bind(cloud, bucket_policy_name("b"), "roles/storage.objectViewer", "user:ana@example.com")
    user, account = (
        tokens.principal(f"Bearer {tokens.issue(name)[0]}") for name in ("user:ana@example.com", "ana@example.com")
    )
    assert (user.email, user.member, user.admin) == ("ana@example.com", "user:ana@example.com", False)
    assert cloud.access.allows_storage(user, "storage.objects.get", "b", "o")
    assert not cloud.access.allows_storage(account, "storage.objects.get", "b", "o")


def test_bindings_of_a_kubernetes_account_hold_for_it_alone(cloud: Cloud) -> None:
    ours, other = (workload_principal("sandbox-encamp", "jobs", name) for name in ("digits", "digits2"))
    condition = {"title": "t", "expression": 'resource.name.startsWith("projects/_/buckets/b/objects/j/")'}
    bind(cloud, bucket_policy_name("b"), "roles/storage.objectUser", ours, condition)

    def allowed(member: str, name: str) -> bool:
        return cloud.access.allows_storage(Principal(member, admin=False), "storage.objects.get", "b", name)

    assert [allowed(ours, "j/x"), allowed(ours, "k/x"), allowed(other, "j/x")] == [True, False, False]
    with pytest.raises(GoogleError, match="Identity Pool does not exist"):
        cloud.access.check_policy(bucket_policy_name("new"), [Binding("roles/storage.objectUser", (ours,))], version=1)


def test_bad_assertions_are_refused(cloud: Cloud, layout: Layout) -> None:
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    good = assertion(layout)
    head, payload, signature = good.split(".")
    for bad in (
        assertion(layout, exp=time.time() - 1),
        assertion(layout, iat=time.time() + 3600, exp=time.time() + 7200),
        assertion(layout, iss="other@x.y"),
        f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        "a.b.c",
        "",
    ):
        with pytest.raises(GoogleError):
            tokens.exchange(bad)
