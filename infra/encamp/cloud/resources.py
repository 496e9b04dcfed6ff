"""Node pools, placement policies, accounts and IAM bindings: what the cloud lists, and how one of them is deleted."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from encamp.cloud.endpoints import Service
from encamp.cloud.rest import GoogleClient, RestError, parsed
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOT_FOUND = 404
#: Another operation runs on the cluster (FAILED_PRECONDITION comes as 400, conflicts as 409), or the policy changed.
_BUSY = frozenset({400, 409, 412})
_CLUSTER = re.compile(r"/clusters/([^/]+)")
#: Longer than a pool takes to go (belief time-pool-deletion).
_BUSY_SECONDS = 660.0
_POLL_SECONDS = 2.0


class Container:
    """Google Kubernetes Engine: the node pools of a cluster."""

    def __init__(
        self, client: GoogleClient, *, sleep: Callable[[float], None] = time.sleep, patience: float = _BUSY_SECONDS
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._patience = patience

    def clusters(self, project: str, location: str = "-") -> list[dict[str, Any]]:
        """Return every cluster of a project; ``-`` is every location."""
        path = f"/v1/projects/{project}/locations/{location}/clusters"
        found: list[dict[str, Any]] = self._client.json(Service.CONTAINER, "GET", path).get("clusters", [])
        return found

    def cluster(self, path: str) -> dict[str, Any] | None:
        """Return the cluster ``projects/P/locations/L/clusters/C``, or None if it is gone."""
        try:
            return self._client.json(Service.CONTAINER, "GET", f"/v1/{path}")
        except RestError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def operations(self, cluster: str, targets: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return operations of the last days whose target's link ends with one of ``targets``, as GKE lists them.

        Belief: teardown-operations-end.
        """
        parent = cluster.partition("/clusters/")[0]
        return [one for one in self._operations(parent) if str(one.get("targetLink")).endswith(targets)]

    def node_pools(self, cluster: str) -> list[dict[str, Any]]:
        """Return node pools of ``projects/P/locations/L/clusters/C``; none if the cluster is gone."""
        try:
            answer = self._client.json(Service.CONTAINER, "GET", f"/v1/{cluster}/nodePools")
        except RestError as error:
            if error.status == _NOT_FOUND:
                return []
            raise
        found: list[dict[str, Any]] = answer.get("nodePools", [])
        return found

    def open_operations(self, cluster: str) -> list[str]:
        """Return GKE's running operations in a cluster (full name) in words, such as ``CREATE_NODE_POOL of pool-1``."""
        parent, _, name = cluster.partition("/clusters/")
        said = []
        for operation in self._operations(parent):
            target = str(operation.get("targetLink") or "")
            if operation.get("status") != "DONE" and name in _CLUSTER.findall(target):
                kind, what = operation.get("operationType", "an operation"), target.rpartition("/")[2]
                said.append(f"{kind} of {what} since {operation.get('startTime', 'some time')}")
        return said

    def _operations(self, parent: str) -> list[dict[str, Any]]:
        """Return operations of the last days in ``projects/P/locations/L``."""
        answer = self._client.json(Service.CONTAINER, "GET", f"/v1/{parent}/operations")
        return list(answer.get("operations") or ())

    def delete_node_pool(self, cluster: str, name: str) -> None:
        """Delete a pool and wait until it is gone, other operations of the cluster allowed to end before.

        Raises:
            EngineError: it still exists after eleven minutes, or the service refuses for another reason.
        """
        _delete(
            lambda: self._client.request(Service.CONTAINER, "DELETE", f"/v1/{cluster}/nodePools/{quote(name)}"),
            lambda: any(pool["name"] == name for pool in self.node_pools(cluster)),
            f"node pool {cluster}/nodePools/{name}",
            sleep=self._sleep,
            patience=self._patience,
        )


class ResourcePolicies:
    """Compute Engine's resource policies: how machines that work together are placed."""

    def __init__(
        self, client: GoogleClient, *, sleep: Callable[[float], None] = time.sleep, patience: float = _BUSY_SECONDS
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._patience = patience

    def policies(self, project: str, region: str) -> Iterator[dict[str, Any]]:
        """Return every resource policy of a region."""
        return self._client.pages(Service.COMPUTE, _policies(project, region), "items")

    def delete(self, project: str, region: str, name: str) -> None:
        """Delete a policy and wait until it is gone; a pool that still uses it is given time to go before.

        Raises:
            EngineError: it still exists after eleven minutes, or the service refuses for another reason.
        """
        _delete(
            lambda: self._client.request(Service.COMPUTE, "DELETE", f"{_policies(project, region)}/{quote(name)}"),
            lambda: any(policy["name"] == name for policy in self.policies(project, region)),
            f"resource policy {region}/{name}",
            sleep=self._sleep,
            patience=self._patience,
        )


def _delete(
    delete: Callable[[], object],
    exists: Callable[[], bool],
    what: str,
    *,
    sleep: Callable[[float], None],
    patience: float,
) -> None:
    """Delete a thing until it is gone: again while another operation is in its way, for ``patience`` seconds.

    Raises:
        EngineError: it still exists then, or the service refuses for another reason.
    """
    waited = 0.0
    while waited <= patience:
        try:
            delete()
        except RestError as error:
            if error.status == _NOT_FOUND:
                return
            if error.status not in _BUSY:
                raise
        if not exists():
            return
        sleep(_POLL_SECONDS)
        waited += _POLL_SECONDS
    raise EngineError("it is still there", where=what, hint="run `encamp reap`")


def _policies(project: str, region: str) -> str:
    return f"/compute/v1/projects/{project}/regions/{region}/resourcePolicies"


class ServiceAccounts:
    """Service accounts of a project."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client

    def accounts(self, project: str) -> Iterator[dict[str, Any]]:
        """Return every service account of a project."""
        path = f"/v1/projects/{project}/serviceAccounts"
        return self._client.pages(Service.IAM, path, "accounts", {"pageSize": "100"})

    def delete(self, project: str, email: str) -> None:
        """Delete an account; none being there is success."""
        path = f"/v1/projects/{project}/serviceAccounts/{quote(email)}"
        self._client.request(Service.IAM, "DELETE", path, accept=frozenset({_NOT_FOUND}))

    def policy(self, project: str, email: str) -> dict[str, Any]:
        """Return the IAM policy on a service account; an empty policy if the account is gone."""
        path = f"/v1/projects/{project}/serviceAccounts/{quote(email)}:getIamPolicy"
        try:
            return self._client.json(Service.IAM, "POST", path, json={"options": {"requestedPolicyVersion": 3}})
        except RestError as error:
            if error.status == _NOT_FOUND:
                return {}
            raise

    def permissions(self, email: str, wanted: tuple[str, ...]) -> frozenset[str] | None:
        """Return those of the wanted permissions that the caller has on an account.

        None if the account does not exist.
        """
        path = f"/v1/projects/-/serviceAccounts/{quote(email)}:testIamPermissions"
        asked = {"permissions": list(wanted)}
        answer = self._client.request(Service.IAM, "POST", path, json=asked, accept=frozenset({_NOT_FOUND}))
        return None if answer.status_code == _NOT_FOUND else frozenset(parsed(answer, email).get("permissions") or ())

    def set_policy(self, project: str, email: str, policy: dict[str, Any]) -> None:
        """Replace an account's policy; refused with 409 where its etag is out of date."""
        path = f"/v1/projects/{project}/serviceAccounts/{quote(email)}:setIamPolicy"
        self._client.json(Service.IAM, "POST", path, json={"policy": policy})


class ProjectPolicy:
    """The IAM policy of a project. Changes are read, modified and written under its etag."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client

    def read(self, project: str) -> dict[str, Any]:
        """Return the policy, conditions included."""
        body = {"options": {"requestedPolicyVersion": 3}}
        return self._client.json(Service.RESOURCE_MANAGER, "POST", f"/v1/projects/{project}:getIamPolicy", json=body)

    def write(self, project: str, policy: dict[str, Any]) -> None:
        """Replace the policy; refused with 409 where its etag is out of date."""
        self._client.json(
            Service.RESOURCE_MANAGER, "POST", f"/v1/projects/{project}:setIamPolicy", json={"policy": policy}
        )


def workload_subject(project: str, namespace: str, account: str) -> str:
    """Return the end of a Kubernetes account's federated principal; its beginning has the project's number."""
    return f"/locations/global/workloadIdentityPools/{project}.svc.id.goog/subject/ns/{namespace}/sa/{account}"


def workload_member(project: str, namespace: str, account: str) -> str:
    """Return a Kubernetes account as the e-mail in ``serviceAccount:…`` members that let it act as a Google one."""
    return f"{project}.svc.id.goog[{namespace}/{account}]"


def bindings_of(policy: dict[str, Any], identity: str) -> list[dict[str, Any]]:
    """Return the bindings of a policy that name an identity.

    It is the e-mail of a service account, alive or deleted, or the ``workload_subject`` of a Kubernetes account.
    """
    return [
        binding
        for binding in policy.get("bindings", [])
        if any(_names(member, identity) for member in binding.get("members", []))
    ]


def remove_member(
    read: Callable[[], dict[str, Any]], write: Callable[[dict[str, Any]], None], identity: str, attempts: int = 5
) -> None:
    """Take an identity (see ``bindings_of``) out of every binding of a policy; bindings without members go.

    Raises:
        RestError: the policy could not be written, also because it changed under every attempt.
    """
    for attempt in range(attempts):
        policy = read()
        if not bindings_of(policy, identity):
            return
        kept = [
            {**binding, "members": [one for one in binding.get("members", []) if not _names(one, identity)]}
            for binding in policy.get("bindings", [])
        ]
        try:
            write({**policy, "bindings": [binding for binding in kept if binding["members"]]})
        except RestError as error:
            if error.status not in _BUSY or attempt + 1 == attempts:
                raise
        else:
            return


def _names(member: str, identity: str) -> bool:
    """Whether a member is the identity: ``serviceAccount:E``, or ``deleted:serviceAccount:E?uid=N``; or a principal."""
    if identity.startswith("/"):
        return member.startswith("principal://") and member.endswith(identity)
    return member.removeprefix("deleted:").partition("?")[0] == f"serviceAccount:{identity}"
