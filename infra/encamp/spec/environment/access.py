"""Access to an environment: teams with AI Platform's roles, and audit logs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written, field
from encamp.spec.members import canonical, canonical_domain
from encamp.spec.ml_roles import ml_roles
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec
    from encamp.spec.loading import DataPath

#: The role of AI Platform's own agent: here a job's service account has its rights.
SERVICE_AGENT = "ml.serviceAgent"

_TEAM = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_EVERYBODY = ("allUsers", "allAuthenticatedUsers", "domain:")
#: cloud.google.com/kubernetes-engine/docs/how-to/google-groups-rbac: the one name that a cluster takes.
_SECURITY_GROUP = re.compile(r"gke-security-groups@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_DESTINATION = re.compile(
    r"storage\.googleapis\.com/[^/\s]+"
    r"|bigquery\.googleapis\.com/projects/[^/\s]+/datasets/[^/\s]+"
    r"|pubsub\.googleapis\.com/projects/[^/\s]+/topics/[^/\s]+"
    r"|logging\.googleapis\.com/projects/[^/\s]+(/locations/[^/\s]+/buckets/[^/\s]+)?"
)
_EXAMPLE = (
    "such as user:ana@example.com, group:vision@example.com or serviceAccount:ci@my-project.iam.gserviceaccount.com"
)


class TeamSpec(Written):
    """People who have the same roles."""

    name: Text = ""
    """Name of the team."""
    members: list[Text] | None = None
    """Members as IAM writes them: ``user:``, ``group:``, ``serviceAccount:`` with an e-mail, or the ``principal://`` of
    a workforce pool."""
    roles: list[Text] | None = None
    """AI Platform's roles, such as ``ml.developer``."""


class AuditSinkSpec(Written):
    """The export of audit logs."""

    bucket: Text | None = None
    """A bucket that the environment makes for them; excludes destination."""
    retention_days: Int64 | None = field(400)
    """Days for which the bucket keeps them; nobody can delete them earlier."""
    destination: Text | None = None
    """A destination that exists, such as ``bigquery.googleapis.com/projects/P/datasets/D``; its owner lets the sink's
    writer in."""


class AuditSpec(Written):
    """Audit logs beside Admin Activity, which Google always keeps."""

    data_access: Flag = True
    """Whether Data Access logs are kept of the services that a job touches: who looked at which cluster, bucket,
    account and policy (``ADMIN_READ``), which is what AI Platform logged."""
    data_reads: Flag = False
    """Also who read and wrote which data (``DATA_READ``, ``DATA_WRITE``): an entry for each object of training data
    that a replica opens, at Cloud Logging's price."""
    exempted: list[Text] | None = None
    """Members whose reads and writes are not logged, such as busy service accounts."""
    sink: AuditSinkSpec | None = None
    """Export of audit logs; none when absent."""


class AccessSpec(Written):
    """Teams, their roles, and audit logs."""

    teams: list[TeamSpec] | None = None
    """The teams."""
    security_group: Text | None = None
    """``gke-security-groups@DOMAIN``: the group of Google Workspace whose groups the cluster knows; needed where a
    member is a group."""
    own_accounts: Flag | None = None
    """Whether teams, and drivers in the cluster, may make service accounts for jobs that ask for one. Whoever may, may
    also set the policy of any service account of the project. When absent: only if the environment's ``identity.mode``
    is ``SERVICE_ACCOUNT``. ``false``: jobs that ask for an account are refused."""
    cloud_tpu: Flag = False
    """True: Cloud TPU's own service agent gets its role in the project, which what is made by Cloud TPU's API needs.
    Slices of GKE do without."""
    audit: AuditSpec | None = None
    """Audit logs; Admin Activity alone when absent."""


def access_problems(access: AccessSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    del environment
    teams = access.teams or []
    names = Counter(team.name for team in teams)
    for index, team in enumerate(teams):
        at: DataPath = ("teams", index)
        if not _TEAM.fullmatch(team.name):
            message = f"{team.name!r} must be a lowercase letter, then letters, digits and -, at most 40 characters"
            yield Found((*at, "name"), message)
        elif names[team.name] > 1:
            yield Found((*at, "name"), f"there are {names[team.name]} teams {team.name}", "make them one")
        yield from _members(team, at, access)
        yield from _roles(team, at)
    group = access.security_group
    if group is not None and not _SECURITY_GROUP.fullmatch(group):
        message = f"{group!r} is not the group that GKE looks for"
        yield Found(("security_group",), message, "write gke-security-groups@ and your domain")
    if access.audit is not None:
        yield from _audit(access.audit)


def _members(team: TeamSpec, at: DataPath, access: AccessSpec) -> Iterator[Found]:
    members = team.members or []
    compared = [canonical(member) for member in members]
    if not members:
        yield Found((*at, "members"), "a team has at least one member", _EXAMPLE)
    for index, member in enumerate(members):
        path = (*at, "members", index)
        if member.startswith(_EVERYBODY):
            yield Found(path, f"{member} would let in whoever has an account", "name people or a group")
        elif compared[index] is None:
            yield Found(path, f"{member!a} is no member of a team", _EXAMPLE)
        elif compared.index(compared[index]) != index:
            yield Found(path, f"{member} is named twice")
        elif member.startswith("group:") and access.security_group is None:
            message = "the cluster knows no groups: it has to be told which group holds those that it may ask for"
            hint = "set access.securityGroup to gke-security-groups@DOMAIN, and make this group a member of it"
            yield Found(path, message, hint)


def _roles(team: TeamSpec, at: DataPath) -> Iterator[Found]:
    known = ml_roles().roles
    if not team.roles:
        yield Found((*at, "roles"), "a team has at least one role", f"known: {', '.join(known)}")
    for index, role in enumerate(team.roles or ()):
        plain = role.removeprefix("roles/")
        path = (*at, "roles", index)
        if plain == SERVICE_AGENT:
            message = "is AI Platform's own agent's, which is gone; a job's account stands for it"
            yield Found(path, f"{role} {message}", "leave it out")
        elif plain not in known:
            close = nearest(plain, known)
            yield Found(path, f"{role!r} is no role of AI Platform", f"write {close or ' or '.join(known)}")
        elif role != plain:
            yield Found(path, f"{role} is a role that Google no longer serves", f"write {plain}: encamp's own of it")
        elif (team.roles or []).index(role) != index:
            yield Found(path, f"{role} is named twice")


def _audit(audit: AuditSpec) -> Iterator[Found]:
    for index, member in enumerate(audit.exempted or ()):
        if not _is_exempted(member):
            yield Found(("audit", "exempted", index), f"{member!a} is no member", _EXAMPLE)
    for name, given in (("exempted", audit.exempted), ("data_reads", audit.data_reads)):
        if given and not audit.data_access:
            message = "is about Data Access logs, and these are off"
            yield Found(("audit", name), message, "leave it out, or leave dataAccess out")
    if audit.sink is not None:
        yield from _sink(audit.sink)


def _sink(sink: AuditSinkSpec) -> Iterator[Found]:
    at: DataPath = ("audit", "sink")
    if (sink.bucket is None) == (sink.destination is None):
        yield Found(at, "names one of bucket and destination")
    if sink.bucket is not None and not _BUCKET.fullmatch(sink.bucket):
        message = f"{sink.bucket!r} must be a bucket name: 3 to 63 lowercase letters, digits, ., _ and -"
        yield Found((*at, "bucket"), message)
    if sink.destination is not None and not _DESTINATION.fullmatch(sink.destination):
        message = f"{sink.destination!r} is no destination of a sink"
        yield Found((*at, "destination"), message, "such as bigquery.googleapis.com/projects/P/datasets/D")
    if sink.retention_days is not None and sink.bucket is None:
        yield Found((*at, "retention_days"), "only a bucket that is made here has it", "leave it out")
    elif sink.retention_days is not None and sink.retention_days < 1:
        yield Found((*at, "retention_days"), f"{sink.retention_days} must be at least 1")


def _is_exempted(member: str) -> bool:
    """Whether somebody can be left out of Data Access logs: no federated person, but a whole domain."""
    kind, _, rest = member.partition(":")
    if kind == "domain":
        return canonical_domain(rest) is not None
    return kind != "principal" and canonical(member) is not None
