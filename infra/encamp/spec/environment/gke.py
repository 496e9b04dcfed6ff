"""The ``gke`` block of an environment: its cluster."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

Day = Literal["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
#: GKE wants windows of four hours and more, and 48 hours of them in any 32 days
#: (cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions).
SHORTEST_WINDOW, LONGEST_WINDOW = 4, 24
HOURS_WANTED, DAYS_WATCHED = 48, 32
#: A cluster takes at most as many exclusions, three of them without any upgrade, and those last 30 days at most.
MOST_FREEZES, MOST_FULL_FREEZES, LONGEST_FULL_FREEZE_DAYS = 20, 3, 30

#: Fields that apply to an adopted cluster too: how it is reached, and the nodes that jobs bring into it.
_OF_ADOPTED = {"dns_endpoint", "job_logs", "node_service_account", "image_repositories", "tpu_locked_memory"}
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_MACHINE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+){1,4}")
_EMAIL = re.compile(r"[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com")
_REPOSITORY = re.compile(r"projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/repositories/[a-z0-9-]+")
_FREEZE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_CONTROL_PLANE_PREFIX = 28
_MOST_ZONAL_NODES = 1000


class AuthorizedNetworkSpec(Written):
    """Addresses that may ask the cluster's API server."""

    name: Text = ""
    """A name for them, such as ``office`` or ``ci``."""
    cidr: Text = ""
    """The range, such as ``203.0.113.0/24``."""


class FreezeSpec(Written):
    """A time in which GKE upgrades nothing, or no more than said: for a training that must not be moved."""

    name: Text = ""
    """Name of the exclusion."""
    start: Text = ""
    """Its begin in UTC, such as ``2026-12-20T00:00:00Z``."""
    end: Text = ""
    """Its end in UTC."""
    scope: Literal["NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES"] = "NO_MINOR_OR_NODE_UPGRADES"
    """Upgrades that are excluded; NO_UPGRADES lasts 30 days at most."""


class MaintenanceSpec(Written):
    """The maintenance window in which GKE may upgrade the cluster: jobs that run then may lose their machines."""

    days: tuple[Day, ...] = ("SA", "SU")
    """Days of the week."""
    start: Text = "02:00"
    """Begin of the window in UTC."""
    hours: Int64 = 8
    """Its length, from 4 to 24."""
    freezes: tuple[FreezeSpec, ...] = ()
    """Times without upgrades."""


class SystemPoolSpec(Written):
    """The machines of permanent workloads: cluster DNS, metrics, JobSet, Kueue, the driver and the reaper."""

    machine_type: Text = "e2-standard-4"
    """Machine type."""
    min_nodes: Int64 = 1
    """Nodes in all zones together when nothing runs; these are what an idle environment costs."""
    max_nodes: Int64 = 3
    """Nodes in all zones together at most."""


class NodeAutoProvisioningSpec(Written):
    """Pools that GKE makes by itself for pods that encamp did not start; jobs bring pools of their own."""

    cpu: Int64 = 0
    """Virtual CPUs of the whole cluster at most."""
    memory_gib: Int64 = 0
    """GiB of memory of the whole cluster at most."""


class GkeSpec(Written):
    """A regional Standard cluster with private nodes, Workload Identity, Dataplane V2 and GCS FUSE."""

    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED"] = "REGULAR"
    """GKE release channel."""
    authorized_networks: tuple[AuthorizedNetworkSpec, ...] | None = None
    """Addresses that may reach the API server beside nodes; an empty list allows none outside of the VPC. When absent,
    every address may, and Google's sign-in alone protects the server."""
    private_endpoint: Flag = False
    """The API server has no public address. Whoever runs encamp must then be inside of the VPC."""
    dns_endpoint: Flag | None = None
    """The API server is also reached by a DNS name, from anywhere, behind Google's sign-in and permissions
    (``container.clusters.connect``), and encamp uses that; `authorizedNetworks` then hold for its address only. On when
    absent, in the sandbox off; a cluster that is adopted is reached by its name where it has one."""
    control_plane_cidr: Text | None = None
    """A /28 for the control plane; chosen by Google when absent."""
    maintenance: MaintenanceSpec = MaintenanceSpec()
    """Maintenance window for GKE's upgrades."""
    image_streaming: Flag = True
    """Containers start before their image is there; for images in Artifact Registry of the same region."""
    job_logs: Flag | None = None
    """Output of replicas also goes to Cloud Logging, at its price a GiB. Off when absent if the environment has
    drivers, which follow each job's logs and store them; on if it has none: the logs of a job that nobody follows are
    only there once its machines are gone."""
    control_plane_logs: Flag = False
    """Also the logs of API server, scheduler and controller manager; they cost."""
    node_service_account: Text | None = None
    """Account of the nodes. One of the environment's own, which may write logs and metrics and read its registry,
    when absent; in the sandbox nodes need none."""
    image_repositories: tuple[Text, ...] = ()
    """Other repositories that the environment's own nodes may pull images from, such as
    ``projects/my-project/locations/us/repositories/team``. Public images need none."""
    tpu_locked_memory: Flag = False
    """Replicas on TPUs may raise their limit of locked memory, as GKE's page of TPUs asks: their containers get the
    capability ``SYS_RESOURCE``. The namespace of jobs is then judged by an admission policy instead of the label
    ``baseline``; it says the same rules with this one exception."""
    system_pool: SystemPoolSpec | None = None
    """Machines of permanent workloads. A small pool when absent; in the sandbox, none."""
    node_auto_provisioning: NodeAutoProvisioningSpec | None = None
    """Off when absent."""


def gke_problems(gke: GkeSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    if "cluster" in environment.adopt:
        for name in sorted(gke.model_fields_set - _OF_ADOPTED):
            yield Found((name,), "is of a cluster that is made, and this one is adopted", "leave it out")
    if gke.dns_endpoint and environment.is_sandbox:
        yield Found(("dns_endpoint",), "the sandbox's API server has no name of its own", "leave it out")
    yield from _endpoint(gke)
    yield from _closed(gke, environment)
    yield from _maintenance(gke.maintenance)
    yield from _freezes(gke.maintenance.freezes)
    account = gke.node_service_account
    if account is not None and not _EMAIL.fullmatch(account):
        hint = f"such as nodes@{environment.project or 'my-project'}.iam.gserviceaccount.com"
        yield Found(("node_service_account",), f"{account!r} is no service account", hint)
    for index, repository in enumerate(gke.image_repositories):
        if not _REPOSITORY.fullmatch(repository):
            hint = "such as projects/my-project/locations/us/repositories/team"
            yield Found(("image_repositories", index), f"{repository!r} is no full name of a repository", hint)
    if gke.image_repositories and account is not None:
        message = "are for nodes with an account of the environment's own"
        yield Found(("image_repositories",), message, f"give {account} roles/artifactregistry.reader there")
    yield from _pools(gke)


def _endpoint(gke: GkeSpec) -> Iterator[Found]:
    for index, network in enumerate(gke.authorized_networks or ()):
        try:
            ipaddress.ip_network(network.cidr)
        except ValueError as error:
            at = ("authorized_networks", index, "cidr")
            yield Found(at, f"is no range of addresses: {error}", "such as 203.0.113.0/24")
    if gke.control_plane_cidr is not None:
        at = ("control_plane_cidr",)
        try:
            cidr = ipaddress.IPv4Network(gke.control_plane_cidr)
        except ValueError as error:
            yield Found(at, f"is no range of IPv4 addresses: {error}", "such as 172.16.0.32/28")
        else:
            if cidr.prefixlen != _CONTROL_PLANE_PREFIX or not cidr.is_private:
                yield Found(at, f"{cidr} must be a private /28", "such as 172.16.0.32/28")


def _closed(gke: GkeSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield what is wrong with a cluster that nobody outside of it reaches.

    Pods of the cluster have its own address. Everybody else needs the name, the private address from inside of the VPC,
    or an address that is listed: an empty list lets not even machines of the VPC reach the public one.
    """
    by_name = gke.dns_endpoint is not False and not environment.is_sandbox
    if by_name or gke.private_endpoint or gke.authorized_networks is None or gke.authorized_networks:
        return
    message = "is empty, and there is neither a DNS endpoint nor a private one: nobody could reach the API server"
    hint = "leave dnsEndpoint out, or list who may; privateEndpoint: true where all who run encamp are in the VPC"
    yield Found(("authorized_networks",), message, hint)


def _maintenance(maintenance: MaintenanceSpec) -> Iterator[Found]:
    at = ("maintenance",)
    if not _CLOCK.fullmatch(maintenance.start):
        yield Found((*at, "start"), f"{maintenance.start!r} must be a time of the day in UTC", "such as 02:00")
    if len(set(maintenance.days)) != len(maintenance.days) or not maintenance.days:
        yield Found((*at, "days"), "must be one or more days, each once", "such as [SA, SU]")
    if not SHORTEST_WINDOW <= maintenance.hours <= LONGEST_WINDOW:
        message = f"{maintenance.hours} must be from {SHORTEST_WINDOW} to {LONGEST_WINDOW}"
        yield Found((*at, "hours"), message)
        return
    # In the worst 32 days a weekday comes four times.
    hours = len(maintenance.days) * maintenance.hours * (DAYS_WATCHED // 7)
    if maintenance.days and hours < HOURS_WANTED:
        message = f"the window is open for {hours} hours in {DAYS_WATCHED} days; GKE wants {HOURS_WANTED}"
        yield Found(at, message, "make it longer, or add a day")


def _freezes(freezes: tuple[FreezeSpec, ...]) -> Iterator[Found]:
    at = ("maintenance", "freezes")
    if len(freezes) > MOST_FREEZES:
        yield Found(at, f"holds {len(freezes)} freezes; GKE takes {MOST_FREEZES}")
    full = [freeze for freeze in freezes if freeze.scope == "NO_UPGRADES"]
    if len(full) > MOST_FULL_FREEZES:
        yield Found(at, f"holds {len(full)} freezes without any upgrades; GKE takes {MOST_FULL_FREEZES}")
    names = [freeze.name for freeze in freezes]
    for index, freeze in enumerate(freezes):
        if not _FREEZE.fullmatch(freeze.name) or freeze.name in names[:index]:
            message = f"{freeze.name!r} must be a lowercase letter, then letters, digits and -, and no other's name"
            yield Found((*at, index, "name"), message, "such as december")
        start, end = _instant(freeze.start), _instant(freeze.end)
        for name, instant in (("start", start), ("end", end)):
            if instant is None:
                message = f"{getattr(freeze, name)!r} must be a time in UTC"
                yield Found((*at, index, name), message, "such as 2026-12-20T00:00:00Z")
        if start is None or end is None:
            continue
        if end <= start:
            yield Found((*at, index, "end"), "must be after the start")
        elif freeze.scope == "NO_UPGRADES" and (end - start).total_seconds() > LONGEST_FULL_FREEZE_DAYS * 86400:
            message = f"is more than {LONGEST_FULL_FREEZE_DAYS} days after the start, as NO_UPGRADES may last"
            yield Found((*at, index, "end"), message, "write scope: NO_MINOR_OR_NODE_UPGRADES")


def _instant(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z") if text.endswith("Z") else None
    except ValueError:
        return None


def _pools(gke: GkeSpec) -> Iterator[Found]:
    pool = gke.system_pool
    if pool is not None:
        if not _MACHINE.fullmatch(pool.machine_type):
            message = f"{pool.machine_type!r} is no machine type"
            yield Found(("system_pool", "machine_type"), message, "such as e2-standard-4")
        if pool.min_nodes < 1:
            message = f"{pool.min_nodes} must be at least 1: without cluster DNS replicas do not find each other"
            yield Found(("system_pool", "min_nodes"), message)
        if not pool.min_nodes <= pool.max_nodes <= _MOST_ZONAL_NODES:
            message = f"{pool.max_nodes} must be from minNodes to {_MOST_ZONAL_NODES}"
            yield Found(("system_pool", "max_nodes"), message)
    limits = gke.node_auto_provisioning
    if limits is not None:
        for name in ("cpu", "memory_gib"):
            if getattr(limits, name) < 1:
                yield Found(("node_auto_provisioning", name), "must be at least 1: GKE wants a limit of both")
