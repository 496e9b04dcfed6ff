"""Resources of one job as the cloud itself lists them, whatever records and states say, and their deletion.

A thing belongs to a job when it carries the job's labels: the job's name, its environment and its owner, each
compared where the thing has it. What cannot carry labels is found by what it names: a service account and a placement
policy by the description (a policy also by a name that the job's record has), a binding by that account or by the job's
Kubernetes account, which has the job's cloud name. Names alone prove nothing else: look-alikes of other owners are left
alone.

Belief: teardown-nothing-is-left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from encamp.cloud.listings import LISTINGS, Listed, Scope, listed
from encamp.cloud.resources import (
    ProjectPolicy,
    ServiceAccounts,
    bindings_of,
    remove_member,
    workload_member,
    workload_subject,
)
from encamp.cloud.rest import RestError
from encamp.cloud.storage import Storage
from encamp.kinds.google import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    BUCKET_MEMBER,
    BUCKET_OBJECT,
    PROJECT_MEMBER,
    RESOURCE_POLICY,
    RESOURCES,
)
from encamp.kinds.objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.kinds.model import GoogleKind

JOB_LABEL = "encamp-job"
_NOT_FOUND = 404


@dataclass(frozen=True)
class JobPlace:
    """The places of a job's resources.

    Attributes:
        labels: what every one of them carries; the job's name and owner at least.
        cluster: ``projects/P/locations/L/clusters/C``, or empty.
        namespace: the job's namespace in the cluster.
        buckets: buckets that stay, in whose policies the job's account may have a binding.
        account: e-mail of an account that was made for the job, if known; looked for in policies even when the
            account itself is gone.
        policies: names of placement policies that were made for the job, if known.
        packages: ``gs://`` names of objects that were uploaded for the job into buckets that stay.
        given_accounts: e-mails of accounts that stay, as which the job's Kubernetes account may act.
    """

    project: str
    labels: Mapping[str, str]
    cluster: str = ""
    namespace: str = ""
    buckets: tuple[str, ...] = ()
    account: str | None = None
    policies: tuple[str, ...] = ()
    given_accounts: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The job's cloud name."""
        return self.labels[JOB_LABEL]

    @property
    def scope(self) -> Scope:
        """The places where its resources are listed."""
        return Scope(self.project, self.cluster)


@dataclass(frozen=True)
class Leftover:
    """One thing of the job that exists.

    Attributes:
        kind: such as ``node pool``.
        name: its full name, as its service has it.
        delete: takes it away and returns when it is gone.
    """

    kind: str
    name: str
    delete: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def leftovers(client: GoogleClient, place: JobPlace, cluster: Cluster | None = None) -> list[Leftover]:
    """Return everything that the cloud lists of a job, in the order in which it is best deleted.

    ``cluster`` is the API server of the job's cluster, None if it is gone, and its objects with it.

    Raises:
        EngineError: a listing was refused or not answered, so that nothing can be said.
    """
    return [*(objects(place, cluster) if cluster is not None else []), *resources(client, place)]


def objects(place: JobPlace, cluster: Cluster) -> list[Leftover]:
    """Return the job's objects that the API server lists."""
    return list(_objects(place, cluster))


def resources(client: GoogleClient, place: JobPlace) -> list[Leftover]:
    """Return the job's resources that Google lists, whether or not its cluster answers."""
    search = _Search(client, place)
    return [found for kind in RESOURCES for found in search.of(kind)]


def owned(labels: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether labels are those of the job: every wanted one, with its value."""
    return bool(wanted.get(JOB_LABEL)) and all((labels or {}).get(key) == value for key, value in wanted.items())


def label_selector(labels: Mapping[str, str]) -> str:
    """Return the selector of Kubernetes objects that carry all of the labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _objects(place: JobPlace, cluster: Cluster) -> Iterator[Leftover]:
    selector = label_selector(place.labels)
    for kind in OBJECTS:
        for item in cluster.list(kind.plural, place.namespace, selector):
            metadata = item["metadata"]
            # An object that its owner takes with it is no leftover of its own; one that still runs is.
            if metadata.get("ownerReferences") and not kind.has_replicas:
                continue
            yield Leftover(
                kind.word,
                f"{place.namespace}/{metadata['name']}",
                partial(cluster.delete, kind.plural, place.namespace, metadata["name"]),
            )


class _Search:
    """The search for one job's resources, kind by kind."""

    def __init__(self, client: GoogleClient, place: JobPlace) -> None:
        self._client = client
        self._place = place

    def of(self, kind: GoogleKind) -> Iterator[Leftover]:
        """Yield the job's resources of a kind."""
        if kind in LISTINGS:
            found = self._accounts if kind is ACCOUNT else self._labelled(kind)
            yield from (Leftover(one.kind, one.name, one.delete) for one in found)
        else:
            yield from (Leftover(kind.word, name, delete) for name, delete in _NAMED[kind](self))

    def _labelled(self, kind: GoogleKind) -> list[Listed]:
        recorded = self._place.policies if kind is RESOURCE_POLICY else ()
        return [
            one
            for one in listed(self._client, kind, self._place.scope)
            if owned(one.labels, self._place.labels) or one.short in recorded
        ]

    @cached_property
    def _accounts(self) -> list[Listed]:
        return self._labelled(ACCOUNT)

    @cached_property
    def _identities(self) -> tuple[str, ...]:
        """The accounts that were made for the job, and its Kubernetes account as a member of policies."""
        place = self._place
        emails = {one.name for one in self._accounts} | ({place.account} if place.account else set())
        return (*sorted(emails), workload_subject(place.project, place.namespace, place.name))

    def project_bindings(self) -> Iterator[_Named]:
        """Yield bindings of the project that name one of its identities."""
        policy, project = ProjectPolicy(self._client), self._place.project
        read, write = partial(policy.read, project), partial(policy.write, project)
        return self._bindings(project, read, write)

    def bucket_bindings(self) -> Iterator[_Named]:
        """Yield bindings of buckets that stay."""
        storage = Storage(self._client)
        for bucket in self._place.buckets:
            read, write = partial(_policy, storage, bucket), partial(storage.set_policy, bucket)
            yield from self._bindings(f"gs://{bucket}", read, write)

    def _bindings(
        self, where: str, read: Callable[[], dict[str, Any]], write: Callable[[dict[str, Any]], None]
    ) -> Iterator[_Named]:
        policy = read()
        for identity in self._identities:
            shown = identity.rpartition("/subject/")[2]
            for binding in bindings_of(policy, identity):
                yield f"{where} {binding['role']} {shown}", partial(remove_member, read, write, identity)

    def account_bindings(self) -> Iterator[_Named]:
        """Yield bindings that let the job's Kubernetes account act as an account that stays."""
        accounts, place = ServiceAccounts(self._client), self._place
        identity = workload_member(place.project, place.namespace, place.name)
        for email in place.given_accounts:
            read = partial(accounts.policy, place.project, email)
            write = partial(accounts.set_policy, place.project, email)
            for binding in bindings_of(read(), identity):
                yield f"{email} {binding['role']} {place.name}", partial(remove_member, read, write, identity)

    def packages(self) -> Iterator[_Named]:
        """Yield objects that were uploaded for it into buckets that stay."""
        storage = Storage(self._client)
        for uri in self._place.packages:
            bucket, _, name = uri.removeprefix("gs://").partition("/")
            if storage.stat(bucket, name) is not None:
                yield uri, partial(storage.delete, bucket, name)


#: A resource's full name, and what deletes it.
_Named = tuple[str, "Callable[[], object]"]
#: Kinds without labels, by what they name.
_NAMED: Final[Mapping[GoogleKind, Callable[[_Search], Iterator[_Named]]]] = {
    PROJECT_MEMBER: _Search.project_bindings,
    BUCKET_MEMBER: _Search.bucket_bindings,
    ACCOUNT_MEMBER: _Search.account_bindings,
    BUCKET_OBJECT: _Search.packages,
}
#: Every kind that is looked for.
FOUND_KINDS: Final = frozenset({*LISTINGS, *_NAMED})


def _policy(storage: Storage, bucket: str) -> dict[str, Any]:
    """Return a bucket's policy; an empty one where the bucket is gone."""
    try:
        return storage.policy(bucket)
    except RestError as error:
        if error.status == _NOT_FOUND:
            return {}
        raise
