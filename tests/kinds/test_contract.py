"""What every declared kind of resource has to have: a search that finds it, a deletion, a receipt, and permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.leftovers import FOUND_KINDS, JobPlace, leftovers
from encamp.cloud.listings import LISTINGS
from encamp.kinds import google as google_kinds
from encamp.kinds import objects as object_kinds
from encamp.kinds.environment import ENVIRONMENT_RESOURCES
from encamp.kinds.google import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    BUCKET,
    BUCKET_MEMBER,
    BUCKET_OBJECT,
    NODE_POOL,
    PROJECT_MEMBER,
    RESOURCE_POLICY,
    RESOURCES,
)
from encamp.kinds.model import Deed, GoogleKind, ObjectKind
from encamp.kinds.objects import OBJECTS
from encamp.plan.access.reaper import REAPER_GRANTS, REAPER_PERMISSIONS, REAPER_RULES
from encamp.run.engine.events import ResourceStep
from encamp.run.engine.made import resources_of, swept_step
from encamp.run.engine.unanswered import Unanswered
from encamp.spec.ml_roles import ClusterRule, ml_roles
from encamp_sandbox.gcp_provider.table import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

LABELS = {"encamp-job": "j-1", "encamp-owner": "me", "encamp-environment": "e"}
WORDS = " ".join(f"{key}={value}" for key, value in LABELS.items())
CLUSTER = "projects/p/locations/r/clusters/c"
EMAIL, GIVEN = "j-1@p.iam.gserviceaccount.com", "given@p.iam.gserviceaccount.com"
FEDERATED = "serviceAccount:p.svc.id.goog[jobs/j-1]"
PACKAGE = "jobs/j/packages/trainer.whl"
PLACE = JobPlace("p", LABELS, CLUSTER, "jobs", ("artifacts",), EMAIL)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

by_token = pytest.mark.parametrize("kind", RESOURCES, ids=lambda kind: kind.token)
by_object = pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.kind)


@dataclass(frozen=True)
class Example:
    """One resource of a kind as a server of the tests has it.

    Attributes:
        put: makes it.
        place: where the job's resources are.
        id: the engine's id of it.
        called: its name among the inputs of its create, None where the engine's inputs have none.
    """

    put: Callable[[Any], object]
    id: str
    called: str | None
    place: JobPlace = PLACE


def _bind(where: str, role: str, member: str) -> Callable[[Any], object]:
    policy = {"etag": "0", "bindings": [{"role": role, "members": [member]}]}
    return lambda google: google.policies.update({where: policy})


def _package(google: Any) -> None:
    google.add_bucket("artifacts")
    google.objects["artifacts", PACKAGE] = b"x"


EXAMPLES = {
    PROJECT_MEMBER: Example(
        _bind("p", "roles/logging.logWriter", f"serviceAccount:{EMAIL}"),
        f"p/roles/logging.logWriter/serviceAccount:{EMAIL}/until",
        None,
    ),
    BUCKET_MEMBER: Example(
        _bind("b/artifacts", "roles/storage.objectUser", f"serviceAccount:{EMAIL}"),
        f"b/artifacts/roles/storage.objectUser/serviceAccount:{EMAIL}",
        None,
    ),
    ACCOUNT_MEMBER: Example(
        _bind(f"sa/{GIVEN}", "roles/iam.workloadIdentityUser", FEDERATED),
        f"projects/p/serviceAccounts/{GIVEN}/roles/iam.workloadIdentityUser/{FEDERATED}/until",
        None,
        replace(PLACE, given_accounts=(GIVEN,)),
    ),
    NODE_POOL: Example(
        lambda google: google.pools.update(n={"name": "n", "config": {"resourceLabels": LABELS}}),
        f"{CLUSTER}/nodePools/n",
        "n",
    ),
    RESOURCE_POLICY: Example(
        lambda google: google.placements.update(n={"name": "n", "description": WORDS}),
        "projects/p/regions/r/resourcePolicies/n",
        "n",
    ),
    BUCKET: Example(lambda google: google.add_bucket("j-scratch", **LABELS), "j-scratch", "j-scratch"),
    BUCKET_OBJECT: Example(
        _package,
        f"artifacts-{PACKAGE}",
        "trainer.whl",
        replace(PLACE, packages=(f"gs://artifacts/{PACKAGE}",)),
    ),
    ACCOUNT: Example(
        lambda google: google.accounts.update({EMAIL: {"email": EMAIL, "description": WORDS}}),
        f"projects/p/serviceAccounts/{EMAIL}",
        "j-1",
    ),
}


@pytest.mark.parametrize(
    ("module", "form", "listed"),
    [(google_kinds, GoogleKind, RESOURCES), (object_kinds, ObjectKind, OBJECTS)],
    ids=["google", "objects"],
)
def test_every_declaration_stands_in_the_order_of_deletion(module: Any, form: type, listed: tuple[Any, ...]) -> None:
    declared = [value for value in vars(module).values() if isinstance(value, form)]
    assert sorted(one.token for one in declared) == sorted(one.token for one in listed)
    assert len({one.token for one in listed}) == len(listed)


def test_every_kind_of_google_has_a_search_and_an_example() -> None:
    declared = {kind.token for kind in RESOURCES}
    assert {kind.token for kind in FOUND_KINDS} == declared
    assert {kind.token for kind in EXAMPLES} == declared
    assert {kind.token for kind in LISTINGS} == {kind.token for kind in RESOURCES if kind.labels_at}


@by_token
def test_a_resource_is_found_and_deletes_itself(kind: GoogleKind, google: Any, client: GoogleClient) -> None:
    example = EXAMPLES[kind]
    example.put(google)
    (found,) = leftovers(client, example.place)
    assert found.kind == kind.word
    found.delete()
    assert leftovers(client, example.place) == []


@by_object
def test_an_object_is_found_and_deletes_itself(
    kind: ObjectKind, client: GoogleClient, kubernetes: Any, cluster: Cluster
) -> None:
    kubernetes.put(kind.plural, "a", LABELS)
    kubernetes.put(kind.plural, "b", {**LABELS, "encamp-job": "another"})
    kubernetes.put(kind.plural, "c", LABELS)["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "s"}]
    found = leftovers(client, PLACE, cluster)
    own = [f"{kind.word} jobs/a", f"{kind.word} jobs/c"] if kind.has_replicas else [f"{kind.word} jobs/a"]
    assert [str(one) for one in found] == own
    for one in found:
        one.delete()
    assert leftovers(client, PLACE, cluster) == []


@by_token
def test_a_receipt_says_of_a_deleted_resource_which_one_it_was(
    kind: GoogleKind, google: Any, client: GoogleClient
) -> None:
    example = EXAMPLES[kind]
    example.put(google)
    (found,) = leftovers(client, example.place)
    made = ResourceStep(NOON, "created", kind.token, "own", "urn:own", example.id)
    (entry,) = resources_of([made, swept_step(found.kind, found.name)])
    assert (entry["name"], bool(entry["created"]), bool(entry["deleted"])) == ("own", True, True)


@by_object
def test_a_receipt_says_of_a_deleted_object_which_one_it_was(kind: ObjectKind) -> None:
    made = ResourceStep(NOON, "created", kind.token, "own", "urn:own", "jobs/a")
    (entry,) = resources_of([made, swept_step(kind.word, "jobs/a")])
    assert (entry["name"], bool(entry["deleted"])) == ("own", True)


@by_token
def test_what_a_create_without_an_answer_made_is_found(kind: GoogleKind, google: Any, client: GoogleClient) -> None:
    example = EXAMPLES[kind]
    if example.called is None:
        # A binding is read and written with its policy: no name of it can be in the way of another attempt.
        assert kind.word == "binding"
        return
    example.put(google)
    (found,) = leftovers(client, example.place)
    assert Unanswered(kind.token, "own", example.called).made([found]) == [found]


@by_object
def test_a_team_and_the_reaper_have_the_verbs_of_an_object(kind: ObjectKind) -> None:
    seen, ended = {"get", "list", "watch"}, {"get", "list", "watch", "delete"}
    made, changed = ({"create"}, {"patch", "update"}) if kind.in_stack else (set[str](), set[str]())
    held = {
        role: _verbs(rule for ability in ml_roles().abilities_of(role) for rule in ability.cluster)
        for role in ("ml.viewer", "ml.developer", "ml.editor")
    }
    key = kind.group, kind.plural
    assert [each[key] for each in held.values()] == [seen, ended | made, ended | made | changed]
    assert _verbs(REAPER_RULES)[key] == ended


def _verbs(rules: Iterable[ClusterRule]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for resource in rule.resources:
            found.setdefault((rule.group, resource), set()).update(rule.verbs)
    return found


@by_token
def test_a_team_and_the_reaper_have_the_permissions_of_a_resource(kind: GoogleKind) -> None:
    held: dict[str, set[str]] = {}
    for ability in ml_roles().abilities_of("ml.developer"):
        for reach, rights in ability.rights.items():
            held.setdefault(reach, set()).update(rights)
    everywhere = {right for rights in held.values() for right in rights}
    assert kind.permissions
    assert set(kind.permissions) <= everywhere
    assert {right for deed in Deed for right in kind.rights(deed)} <= held["project"]
    assert {*kind.see, *kind.delete} <= {*REAPER_PERMISSIONS, *REAPER_GRANTS}
    # Who takes jobs down creates nothing but archived logs and lines about them.
    created = {*kind.create} - {*kind.delete, *kind.see}
    assert {one for one in created if one.endswith(".create")} & {*REAPER_PERMISSIONS} <= {"storage.objects.create"}


@pytest.mark.parametrize("kind", [*RESOURCES, *ENVIRONMENT_RESOURCES], ids=lambda kind: kind.token)
def test_the_sandbox_serves_a_resource(kind: GoogleKind) -> None:
    assert kind.token in TYPES


def test_labels_are_read_where_the_kind_has_them() -> None:
    assert NODE_POOL.labels({"config": {"labels": LABELS}}) == LABELS
    assert NODE_POOL.labels({"config": {"labels": {"a": "1"}, "resourceLabels": {"a": "2"}}}) == {"a": "2"}
    assert ACCOUNT.labels({"description": f"{WORDS} of somebody"}) == LABELS
    assert [kind.labels({}) for kind in RESOURCES] == [{}] * len(RESOURCES)
    assert json.dumps(BUCKET.labels({"labels": None})) == "{}"
