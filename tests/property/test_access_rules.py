"""The real API server takes the roles of an environment's teams, and allows by them what it should."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.cloud.api_client import api_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from tests.camp import Camp

pytestmark = pytest.mark.sandbox

#: What the component of a team of developers (a group) and one of viewers declares.
GOLDEN = Path(__file__).parents[1] / "components" / "golden" / "access.yaml"
NAMESPACE = "encamp-jobs"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
DEVELOPER = {"user": "ana@example.com", "groups": ["vision@example.com", "system:authenticated"]}
VIEWER = {"user": "eve@example.com", "groups": ["system:authenticated"]}
STRANGER = {"user": "mallory@example.com", "groups": ["system:authenticated"]}


@pytest.fixture(scope="module")
def api(shared_camp: Camp) -> Iterator[httpx.Client]:
    client = api_client(shared_camp.layout.kubeconfig.read_text())
    made: list[str] = []
    for key, item in sorted(yaml.safe_load(GOLDEN.read_text()).items()):
        if key.startswith("kubernetes:rbac"):
            kind = f"{item['kind'].lower()}s"
            answer = client.post(f"{RBAC}/{kind}", params={"fieldValidation": "Strict"}, json=item)
            assert answer.status_code == 201, answer.text
            made.append(f"{RBAC}/{kind}/{item['metadata']['name']}")
    assert len(made) == 4
    yield client
    for path in made:
        assert client.delete(path).is_success
    client.close()


def allowed(api: httpx.Client, who: dict[str, Any], verb: str, resource: str, namespace: str = NAMESPACE) -> bool:
    """The API server's own answer; ``resource`` is ``group/resource/subresource``, the first empty for the core."""
    group, name, *sub = resource.split("/")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
    attributes |= {"subresource": sub[0]} if sub else {}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**who, "resourceAttributes": attributes},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
    assert answer.status_code == 201, answer.text
    return bool(answer.json()["status"]["allowed"])


@pytest.mark.parametrize(
    ("verb", "resource", "developer", "viewer"),
    [
        ("create", "jobset.x-k8s.io/jobsets", True, False),
        ("delete", "jobset.x-k8s.io/jobsets", True, False),
        ("list", "jobset.x-k8s.io/jobsets", True, True),
        ("create", "/configmaps", True, False),
        ("watch", "/pods", True, True),
        ("get", "/pods/log", True, True),
        ("delete", "/pods", True, False),
        ("list", "kueue.x-k8s.io/workloads", True, True),
        ("create", "/pods", False, False),
        ("create", "/pods/exec", False, False),
        ("get", "/secrets", False, False),
        ("create", "/serviceaccounts/token", False, False),
        ("create", "rbac.authorization.k8s.io/rolebindings", False, False),
        ("update", "kueue.x-k8s.io/localqueues", False, False),
    ],
)
def test_teams_may_do_what_their_roles_say_in_the_namespace_of_the_jobs(
    api: httpx.Client, verb: str, resource: str, *, developer: bool, viewer: bool
) -> None:
    assert allowed(api, DEVELOPER, verb, resource) is developer
    assert allowed(api, VIEWER, verb, resource) is viewer
    assert not allowed(api, STRANGER, verb, resource)
    for elsewhere in ("kube-system", "default"):
        assert not allowed(api, DEVELOPER, verb, resource, elsewhere)
