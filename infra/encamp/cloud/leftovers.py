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
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp.cloud.resources import (
    Container,
    ProjectPolicy,
    ResourcePolicies,
    ServiceAccounts,
    bindings_of,
    remove_member,
    workload_member,
    workload_subject,
)
from encamp.cloud.rest import RestError
from encamp.cloud.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

JOB_LABEL = "encamp-job"
_NOT_FOUND = 404
#: ``projects/P/locations/L`` has its location as the fourth word.
_LOCATION = 3
#: In the order in which they are best deleted: what makes others first.
_KINDS = (
    "jobsets", "jobs", "pods", "services", "provisioningrequests", "podtemplates", "resourceclaimtemplates",
    "networkpolicies", "configmaps", "serviceaccounts",
)  # fmt: skip


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
    def region(self) -> str:
        """The region of its cluster, empty if there is none."""
        words = self.cluster.split("/")
        return words[3] if len(words) > _LOCATION else ""


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
    accounts = list(_accounts(client, place))
    emails = {account["email"] for account in accounts} | ({place.account} if place.account else set())
    found: list[Leftover] = []
    for identity in (*sorted(emails), workload_subject(place.project, place.namespace, place.name)):
        found += _bindings(client, place, identity)
    found += [*_stand_ins(client, place), *_node_pools(client, place), *_policies(client, place)]
    found += [*_buckets(client, place), *_packages(client, place)]
    for account in accounts:
        delete = partial(ServiceAccounts(client).delete, place.project, account["email"])
        found.append(Leftover("service account", account["email"], delete))
    return found


def owned(labels: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether labels are those of the job: every wanted one, with its value."""
    return bool(wanted.get(JOB_LABEL)) and all((labels or {}).get(key) == value for key, value in wanted.items())


def label_selector(labels: Mapping[str, str]) -> str:
    """Return the selector of Kubernetes objects that carry all of the labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def described(description: str) -> dict[str, str]:
    """Return the labels that stand in a description as ``key=value`` words."""
    words = (word.partition("=") for word in description.split())
    return {key: value for key, sign, value in words if sign}


def _objects(place: JobPlace, cluster: Cluster) -> Iterator[Leftover]:
    selector = label_selector(place.labels)
    for kind in _KINDS:
        for item in cluster.list(kind, place.namespace, selector):
            metadata = item["metadata"]
            # An object that its owner takes with it is no leftover of its own; one that still runs is.
            if metadata.get("ownerReferences") and kind not in {"pods", "jobs", "jobsets"}:
                continue
            yield Leftover(
                _one(kind),
                f"{place.namespace}/{metadata['name']}",
                partial(cluster.delete, kind, place.namespace, metadata["name"]),
            )


def _node_pools(client: GoogleClient, place: JobPlace) -> Iterator[Leftover]:
    container = Container(client)
    for pool in container.node_pools(place.cluster) if place.cluster else []:
        config: dict[str, Any] = pool.get("config", {})
        if owned(config.get("resourceLabels"), place.labels) or owned(config.get("labels"), place.labels):
            delete = partial(container.delete_node_pool, place.cluster, pool["name"])
            yield Leftover("node pool", f"{place.cluster}/nodePools/{pool['name']}", delete)


def _policies(client: GoogleClient, place: JobPlace) -> Iterator[Leftover]:
    found = ResourcePolicies(client)
    for policy in found.policies(place.project, place.region) if place.region else []:
        if policy["name"] in place.policies or owned(described(policy.get("description", "")), place.labels):
            delete = partial(found.delete, place.project, place.region, policy["name"])
            yield Leftover("placement policy", f"{place.region}/{policy['name']}", delete)


def _stand_ins(client: GoogleClient, place: JobPlace) -> Iterator[Leftover]:
    """Yield bindings that let the job's Kubernetes account act as an account that stays."""
    accounts = ServiceAccounts(client)
    identity = workload_member(place.project, place.namespace, place.name)
    for email in place.given_accounts:
        read, write = partial(accounts.policy, place.project, email), partial(accounts.set_policy, place.project, email)
        for binding in bindings_of(read(), identity):
            delete = partial(remove_member, read, write, identity)
            yield Leftover("binding", f"{email} {binding['role']} {place.name}", delete)


def _buckets(client: GoogleClient, place: JobPlace) -> Iterator[Leftover]:
    storage = Storage(client)
    for bucket in storage.buckets(place.project):
        if owned(bucket.get("labels"), place.labels):
            yield Leftover("bucket", f"gs://{bucket['name']}", partial(storage.delete_bucket, bucket["name"]))


def _packages(client: GoogleClient, place: JobPlace) -> Iterator[Leftover]:
    storage = Storage(client)
    for uri in place.packages:
        bucket, _, name = uri.removeprefix("gs://").partition("/")
        if storage.stat(bucket, name) is not None:
            yield Leftover("package", uri, partial(storage.delete, bucket, name))


def _accounts(client: GoogleClient, place: JobPlace) -> Iterator[dict[str, Any]]:
    for account in ServiceAccounts(client).accounts(place.project):
        if owned(described(account.get("description", "")), place.labels):
            yield account


def _bindings(client: GoogleClient, place: JobPlace, identity: str) -> Iterator[Leftover]:
    project = ProjectPolicy(client)
    read, write = partial(project.read, place.project), partial(project.write, place.project)
    for binding in bindings_of(read(), identity):
        delete = partial(remove_member, read, write, identity)
        yield Leftover("binding", f"{place.project} {binding['role']} {_shown(identity)}", delete)
    storage = Storage(client)
    for bucket in place.buckets:
        read, write = partial(storage.policy, bucket), partial(storage.set_policy, bucket)
        for binding in bindings_of(_policy(storage, bucket), identity):
            delete = partial(remove_member, read, write, identity)
            yield Leftover("binding", f"gs://{bucket} {binding['role']} {_shown(identity)}", delete)


def _policy(storage: Storage, bucket: str) -> dict[str, Any]:
    """Return a bucket's policy; an empty one where the bucket is gone."""
    try:
        return storage.policy(bucket)
    except RestError as error:
        if error.status == _NOT_FOUND:
            return {}
        raise


def _shown(identity: str) -> str:
    return identity.rpartition("/subject/")[2]


def _one(kind: str) -> str:
    """Return one of a kind: ``pod`` of pods, ``networkpolicy`` of networkpolicies."""
    return f"{kind.removesuffix('ies')}y" if kind.endswith("ies") else kind.removesuffix("s")
