"""The ``api`` block of an environment: the jobs API in the environment's own cluster."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from encamp.spec.environment.in_cluster import SECRET, image_problems
from encamp.spec.environment.problems import Found
from encamp.spec.fields import Int64, Text, Written
from encamp.spec.members import canonical_domain, is_service_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

#: More replicas on one record would query it more often than they are called.
_MOST_REPLICAS = 10
#: Drivers at once; each is a pod of the system pool.
_MOST_DRIVERS = 200
_LARGEST_PORT = 65_535
#: Each change of the queue reads it whole.
_MOST_WAITING = 20_000
#: E-mails of these domains are Google accounts, even if another issuer has verified one.
_GOOGLES = frozenset({"gmail.com", "googlemail.com"})
_ACCOUNT = re.compile(r"[a-z0-9-]{1,63}@[a-z0-9.:-]{1,200}\.gserviceaccount\.com")


class ApiIssuerSpec(Written):
    """An issuer of ID tokens that is trusted beside Google."""

    url: Text = ""
    """Issuer as in the ``iss`` claim of its tokens; https."""
    keys: Text | None = None
    """URL of its key set; where its discovery document says when absent."""
    pool: Text | None = None
    """Workforce pool whose people it signs in: they are the pool's ``principal://`` members. When absent they are
    ``user:`` members, by an e-mail that the issuer has verified."""
    subject: Text = "sub"
    """The claim that the pool takes for ``google.subject``."""
    domains: tuple[Text, ...] = ()
    """Domains of the e-mails that it may speak for, each named itself: of ``example.com`` no ``mail.example.com``.
    Needed where its people are ``user:`` members, and nothing if a pool names them."""


class ApiSpec(Written):
    """A Deployment that runs ``encamp serve``: ``projects.jobs`` of AI Platform for gcloud and other old clients."""

    image: Text | None = None
    """Container image, as of ``driver``, and that one when absent."""
    record_secret: Text = ""
    """Name of a Kubernetes Secret in the service's namespace. Its keys are variables of the pods: ``ENCAMP_RECORD_URL``
    of a PostgreSQL database, and ``ENCAMP_SUBMISSIONS_KEY``, by which jobs that wait are kept unreadable."""
    record_port: Int64 = 5432
    """The database's port, which the pods may reach."""
    replicas: Int64 = 1
    """Number of pods that serve; they share the record."""
    drivers: Int64 = 4
    """Number of jobs that are driven at once; the others wait in the order of priority and time."""
    waiting_jobs: Int64 = 5000
    """Largest number of waiting jobs; a create beyond it is refused."""
    waiting_jobs_of_caller: Int64 = 1000
    """Largest number of waiting jobs that one caller may have created."""
    audiences: tuple[Text, ...] = ()
    """Accepted audiences of ID tokens, such as the service's own URL; only access tokens are accepted when empty."""
    issuers: tuple[ApiIssuerSpec, ...] = ()
    """Issuers whose ID tokens are accepted beside Google's."""
    clients: tuple[Text, ...] = ()
    """OAuth client ids whose access tokens are accepted beside gcloud's."""
    act_as: tuple[Text, ...] = ()
    """Service accounts that whoever may create jobs may let them run with (``trainingInput.serviceAccount``): the
    service cannot ask Google what its callers may act as, and acts as itself. None when empty."""
    networks: tuple[Text, ...] = ()
    """Addresses outside of the cluster that may reach it, such as those of a load balancer's proxies. Pods of the
    cluster may, except those of jobs."""
    trusted_proxies: tuple[Text, ...] = ()
    """Ranges of addresses of gateways that are believed about who called them (``X-Forwarded-For``), such as a load
    balancer's proxies and its own address. Callers are named by the addresses of their connections when empty."""


def api_problems(api: ApiSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    if environment.is_sandbox:
        yield Found((), "a sandbox's record is of this machine, where `encamp serve` runs without it", "leave it out")
    elif environment.driver is None:
        yield Found((), "hands its jobs over to drivers in the cluster, and there are none", "write a `driver` block")
    if api.image is not None:
        yield from image_problems(api.image)
    if not SECRET.fullmatch(api.record_secret):
        message = "must name a Kubernetes Secret with ENCAMP_RECORD_URL and ENCAMP_SUBMISSIONS_KEY"
        yield Found(("record_secret",), message)
    limits = (
        ("replicas", api.replicas, _MOST_REPLICAS),
        ("drivers", api.drivers, _MOST_DRIVERS),
        ("record_port", api.record_port, _LARGEST_PORT),
        ("waiting_jobs", api.waiting_jobs, _MOST_WAITING),
        ("waiting_jobs_of_caller", api.waiting_jobs_of_caller, _MOST_WAITING),
    )
    for name, value, most in limits:
        if not 1 <= value <= most:
            yield Found((name,), f"{value} must be from 1 to {most}")
    yield from _names(api)
    yield from _issuers(api)


def _names(api: ApiSpec) -> Iterator[Found]:
    for account in api.act_as:
        if not _ACCOUNT.fullmatch(account):
            yield Found(("act_as",), f"{account!r} is no service account", "NAME@PROJECT.iam.gserviceaccount.com")
    for name, networks in (("networks", api.networks), ("trusted_proxies", api.trusted_proxies)):
        for network in networks:
            try:
                size = ipaddress.ip_network(network).prefixlen
            except ValueError as error:
                yield Found((name,), f"is no range of addresses: {error}", "such as 35.191.0.0/16")
                continue
            if not size and name == "trusted_proxies":
                message = "trusts every address, so that any caller could write who they are"
                yield Found((name,), message, "name the gateways alone")


def _issuers(api: ApiSpec) -> Iterator[Found]:
    if any(not audience.strip() for audience in api.audiences):
        yield Found(("audiences",), "an audience is empty", "the service's own URL")
    if api.issuers and not api.audiences:
        yield Found(("audiences",), "issuers of ID tokens need an audience", "the service's own URL")
    for issuer in api.issuers:
        for name, url in (("url", issuer.url), ("keys", issuer.keys)):
            if url is not None and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
                yield Found(("issuers",), f"{name} {url!r} must be an https URL")
        yield from _domains(issuer)


def _domains(issuer: ApiIssuerSpec) -> Iterator[Found]:
    """Yield problems with the e-mail domains of an issuer: without them its operator could sign in as anybody."""
    if issuer.pool is not None and issuer.domains:
        yield Found(("issuers",), f"{issuer.url} names people of a pool, which have no e-mails", "leave domains out")
    elif issuer.pool is None and not issuer.domains:
        message = f"{issuer.url} could speak for everybody's e-mail"
        yield Found(("issuers",), message, "name the domains of its people in domains, such as [example.com]")
    for domain in issuer.domains:
        known = canonical_domain(domain)
        if known is None:
            message = f"{domain!a} is no domain"
            yield Found(("issuers",), message, "such as example.com; other scripts in punycode, xn--...")
        elif known in _GOOGLES or is_service_account(f"x@{known}"):
            yield Found(("issuers",), f"Google alone speaks for {known}", "leave it out")
