"""Custom roles, audit configuration, exports of logs, and the agents of Google's services."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.cloud.log_filter import FilterError, matcher
from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule, choice_rule, pattern_rule
from encamp.sandbox.cloud.gcp.stored import StoredBackend
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

_ROLES = "cloud.google.com/iam/docs/creating-custom-roles"
_PERMISSION = re.compile(r"[a-z][a-z0-9]*\.[A-Za-z0-9]+\.[A-Za-z0-9]+")
#: What a role of a project may not hold, because a project has no such thing.
_ABOVE_PROJECTS = ("resourcemanager.folders.", "resourcemanager.organizations.", "resourcemanager.projects.list")
_MOST_PERMISSIONS = 3000
_LOG_TYPES = ("ADMIN_READ", "DATA_READ", "DATA_WRITE")


def _permissions(inputs: Properties, _: Context) -> Problem:
    held = inputs.get("permissions") or []
    if not held:
        return "a custom role holds at least one permission"
    if len(held) > _MOST_PERMISSIONS:
        return f"a custom role holds at most {_MOST_PERMISSIONS} permissions"
    for permission in held:
        if not _PERMISSION.fullmatch(str(permission)):
            return f"Permission {permission} is not valid."
        if str(permission).startswith(_ABOVE_PROJECTS):
            return f"Permission {permission} is not supported in custom roles at the project level."
    return None


def _role_outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    del context
    return {"name": resource.name, "deleted": False}


CUSTOM_ROLE: Final = ResourceType(
    "gcp:projects/iAMCustomRole:IAMCustomRole",
    wheel=("pulumi_gcp.projects", "IAMCustomRole"),
    backend=StoredBackend(
        kind="role",
        full_name=lambda inputs, context: f"projects/{context.project}/roles/{inputs['roleId']}",
        outputs=_role_outputs,
        defaults={"stage": "GA"},
    ),
    required=("permissions", "roleId", "title"),
    immutable=("roleId", "project"),
    computed=("deleted", "name"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        pattern_rule("id", "roleId", r"[A-Za-z0-9_.]{3,64}", _ROLES, "must be 3 to 64 letters, digits, _ and ."),
        pattern_rule("title", "title", r".{1,100}", _ROLES, "must be 1 to 100 characters"),
        choice_rule("stage", "stage", ("ALPHA", "BETA", "GA", "DEPRECATED", "DISABLED", "EAP"), _ROLES),
        Rule("permissions", f"{_ROLES}#permissions-support", ("permissions",), _permissions, api=True),
    ),
)

_AUDIT = "cloud.google.com/logging/docs/audit/configure-data-access"


def _log_types(inputs: Properties, _: Context) -> Problem:
    kinds = [config.get("logType") for config in inputs.get("auditLogConfigs") or ()]
    for kind in kinds:
        if kind not in _LOG_TYPES:
            return f"expected logType to be one of {list(_LOG_TYPES)}, got {kind}"
        if kinds.count(kind) > 1:
            return f"{kind} is configured {kinds.count(kind)} times"
    return None if kinds else "a service is configured for at least one type of log"


def _audit_name(inputs: Properties, context: Context) -> str:
    return f"projects/{context.project}/auditConfigs/{inputs['service']}"


AUDIT_CONFIG: Final = ResourceType(
    "gcp:projects/iAMAuditConfig:IAMAuditConfig",
    wheel=("pulumi_gcp.projects", "IAMAuditConfig"),
    backend=StoredBackend(
        kind="auditConfig",
        full_name=_audit_name,
        outputs=lambda resource, _: {"etag": resource.etag},
        identifier=lambda inputs, context: f"{context.project}/audit_config/{inputs['service']}",
        by_id=lambda resource_id: "projects/{}/auditConfigs/{}".format(*resource_id.split("/audit_config/")),
    ),
    required=("auditLogConfigs", "project", "service"),
    immutable=("project", "service"),
    computed=("etag",),
    rules=(
        PROJECT,
        pattern_rule(
            "service", "service", r"allServices|[a-z0-9-]+(\.[a-z0-9-]+)+", _AUDIT,
            "is no name of a service, such as storage.googleapis.com",
        ),
        Rule("types", _AUDIT, ("auditLogConfigs",), _log_types),
    ),
)  # fmt: skip

_SINKS = "cloud.google.com/logging/docs/export/configure_export_v2"
_RESERVED = ("_Default", "_Required")


def _sink_name(inputs: Properties, _: Context) -> Problem:
    name = str(inputs.get("name"))
    return f"the sink {name} is Cloud Logging's own" if name in _RESERVED else None


def _writer(resource: CloudResource, context: Context) -> dict[str, Any]:
    if resource.body["inputs"].get("uniqueWriterIdentity") is False:
        return {"writerIdentity": "serviceAccount:cloud-logs@system.gserviceaccount.com"}
    agent = f"service-{project_number(context.project)}@gcp-sa-logging.iam.gserviceaccount.com"
    return {"writerIdentity": f"serviceAccount:{agent}"}


SINK: Final = ResourceType(
    "gcp:logging/projectSink:ProjectSink",
    wheel=("pulumi_gcp.logging", "ProjectSink"),
    backend=StoredBackend(
        kind="sink",
        full_name=lambda inputs, context: f"projects/{context.project}/sinks/{inputs['name']}",
        outputs=_writer,
        defaults={"uniqueWriterIdentity": True},
    ),
    required=("destination",),
    immutable=("name", "project", "uniqueWriterIdentity"),
    computed=("writerIdentity",),
    rules=(
        PROJECT,
        DELETION_POLICY,
        pattern_rule(
            "name", "name", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", _SINKS,
            "must be at most 100 letters, digits, _, . and -",
        ),
        Rule("reserved name", _SINKS, ("name",), _sink_name, api=True),
        pattern_rule(
            "destination", "destination",
            r"storage\.googleapis\.com/[^/\s]+|(bigquery|pubsub|logging)\.googleapis\.com/projects/\S+",
            f"{_SINKS}#supported-destinations", "is no destination of a sink",
        ),
    ),
    autoname="name",
)  # fmt: skip

_EXCLUSIONS = "cloud.google.com/logging/docs/reference/v2/rest/v2/projects.exclusions"


def _exclusion_filter(inputs: Properties, _: Context) -> Problem:
    try:
        matcher(str(inputs.get("filter") or ""))
    except FilterError as error:
        return str(error)
    return None if inputs.get("filter") else "An exclusion needs a filter."


EXCLUSION: Final = ResourceType(
    "gcp:logging/projectExclusion:ProjectExclusion",
    wheel=("pulumi_gcp.logging", "ProjectExclusion"),
    backend=StoredBackend(
        kind="logExclusion",
        full_name=lambda inputs, context: f"projects/{context.project}/exclusions/{inputs['name']}",
    ),
    required=("filter",),
    immutable=("name", "project"),
    computed=(),
    rules=(
        PROJECT,
        pattern_rule(
            "name", "name", r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", _EXCLUSIONS,
            "must be at most 100 letters, digits, _, . and -",
        ),
        Rule("filter", _EXCLUSIONS, ("filter",), _exclusion_filter, api=True),
    ),
    autoname="name",
)  # fmt: skip

#: Domains of agents that do not follow from their service's name.
_AGENTS = {
    "container.googleapis.com": "container-engine-robot",
    "compute.googleapis.com": "compute-system",
    "artifactregistry.googleapis.com": "gcp-sa-artifactregistry",
}


def _agent(resource: CloudResource, context: Context) -> dict[str, Any]:
    service = str(resource.body["inputs"]["service"])
    domain = _AGENTS.get(service) or f"gcp-sa-{service.partition('.')[0]}"
    email = f"service-{project_number(context.project)}@{domain}.iam.gserviceaccount.com"
    return {"email": email, "member": f"serviceAccount:{email}"}


class _IdentityBackend(StoredBackend):
    """An agent that exists is the same agent, and none can be deleted."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it, or find it."""
        if context.cloud.store.find(self.full_name(inputs, context)):
            return await self.update("", inputs, inputs, context)
        return await super().create(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Leave it: Google has no such call."""


SERVICE_IDENTITY: Final = ResourceType(
    "gcp:projects/serviceIdentity:ServiceIdentity",
    wheel=("pulumi_gcp.projects", "ServiceIdentity"),
    backend=_IdentityBackend(
        kind="serviceIdentity",
        full_name=lambda inputs, context: f"projects/{context.project}/services/{inputs['service']}/identity",
        outputs=_agent,
        # The service has to be enabled before it has an agent.
        parents=lambda inputs, context: [f"projects/{context.project}/services/{inputs['service']}"],
    ),
    required=("service",),
    immutable=("service", "project"),
    computed=("email", "member"),
    rules=(
        PROJECT,
        pattern_rule(
            "service", "service", r"[a-z0-9-]+(\.[a-z0-9-]+)+", "cloud.google.com/iam/docs/create-service-agents",
            "is no name of a service, such as tpu.googleapis.com",
        ),
    ),
)  # fmt: skip

ACCESS_TYPES: Final = (CUSTOM_ROLE, AUDIT_CONFIG, SINK, EXCLUSION, SERVICE_IDENTITY)
