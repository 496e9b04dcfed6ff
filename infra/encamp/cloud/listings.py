"""Listings of the resources that carry labels of a job: one request for each kind, and how one of them is deleted.

A new kind of ``kinds/google.py`` with ``labels_at`` needs an entry in ``LISTINGS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from encamp.cloud.resources import Container, ResourcePolicies, ServiceAccounts
from encamp.cloud.storage import Storage
from encamp.kinds.google import ACCOUNT, BUCKET, NODE_POOL, RESOURCE_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from encamp.cloud.rest import GoogleClient
    from encamp.kinds.model import GoogleKind

#: ``projects/P/locations/L`` has its location as the fourth word.
_LOCATION = 3


@dataclass(frozen=True)
class Scope:
    """The places whose resources are listed.

    Attributes:
        cluster: ``projects/P/locations/L/clusters/C``, or empty.
    """

    project: str
    cluster: str = ""

    @property
    def region(self) -> str:
        """The region of the cluster, empty if there is none."""
        words = self.cluster.split("/")
        return words[_LOCATION] if len(words) > _LOCATION else ""


@dataclass(frozen=True)
class Listed:
    """One resource that its service lists.

    Attributes:
        kind: its kind in words.
        name: its full name.
        short: its name among resources of its kind.
        delete: takes it away and returns when it is gone.
    """

    kind: str
    name: str
    short: str
    labels: Mapping[str, str]
    delete: Callable[[], object]


_Found = tuple[str, str, dict[str, Any], "Callable[[], object]"]


def listed(client: GoogleClient, kind: GoogleKind, scope: Scope) -> Iterator[Listed]:
    """Yield every resource of a kind in a scope, whosever it is.

    Raises:
        EngineError: the listing was refused or not answered.
    """
    for name, short, item, delete in LISTINGS[kind](client, scope):
        yield Listed(kind.word, name, short, kind.labels(item), delete)


def _node_pools(client: GoogleClient, scope: Scope) -> Iterator[_Found]:
    container = Container(client)
    for pool in container.node_pools(scope.cluster) if scope.cluster else []:
        short = pool["name"]
        delete = partial(container.delete_node_pool, scope.cluster, short)
        yield f"{scope.cluster}/nodePools/{short}", short, pool, delete


def _policies(client: GoogleClient, scope: Scope) -> Iterator[_Found]:
    policies = ResourcePolicies(client)
    for policy in policies.policies(scope.project, scope.region) if scope.region else []:
        short = policy["name"]
        yield f"{scope.region}/{short}", short, policy, partial(policies.delete, scope.project, scope.region, short)


def _buckets(client: GoogleClient, scope: Scope) -> Iterator[_Found]:
    storage = Storage(client)
    for bucket in storage.buckets(scope.project):
        name = f"gs://{bucket['name']}"
        yield name, name, bucket, partial(storage.delete_bucket, bucket["name"])


def _accounts(client: GoogleClient, scope: Scope) -> Iterator[_Found]:
    accounts = ServiceAccounts(client)
    for account in accounts.accounts(scope.project):
        email = account["email"]
        yield email, email, account, partial(accounts.delete, scope.project, email)


LISTINGS: Final[Mapping[GoogleKind, Callable[[GoogleClient, Scope], Iterator[_Found]]]] = {
    NODE_POOL: _node_pools,
    RESOURCE_POLICY: _policies,
    BUCKET: _buckets,
    ACCOUNT: _accounts,
}
