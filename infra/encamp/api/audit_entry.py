"""One entry of the audit log, from a call: secrets made unreadable, everything bounded, nothing that ends a line.

Sources: cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry,
cloud.google.com/logging/docs/reference/audit/auditlog/rest/Shared.Types/AuditLog, google.rpc.Code.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from encamp.api.access import SERVICE
from encamp.api.bounded import bounded, bounded_name, bounded_text
from encamp.api.errors import CODES
from encamp.api.methods import AuditKind
from encamp.run.times import micros, written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.api.caller import Caller
    from encamp.api.methods import Method

#: Bytes of a whole entry, its line's end included. Cloud Logging's own limit is four times as much.
LONGEST_LINE: Final = 64 * 1024
_TYPE: Final = "type.googleapis.com"
_IAM: Final = "google.iam.v1"
_LOGGING: Final = "logging.googleapis.com"
_EMPTY: Final = "google.protobuf.Empty"
#: google.rpc.Code of each status name.
_RPC_CODES: Final = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
_UNKNOWN: Final = 2
_OK: Final = 300
#: The name that an HTTP code most often stands for, where nobody said it; the first of those that share one.
_BY_CODE: Final = {code: name for name, code in reversed(CODES.items())}


@dataclass(frozen=True)
class AuditedCall:
    """A call that was answered, or refused.

    Attributes:
        at: when it came; with a time zone.
        insert_id: no other entry has it.
        project: id of the project.
        resource: the call's resource, such as ``projects/P/jobs/J``.
        caller: None if nobody could tell.
        client_ip: address that the call came from.
        request: the body, or the parameters of the query.
        response: the answer's body; None without one, and for a refusal.
        granted: whether the caller had the method's permission; None if it did not come to that.
        code: HTTP code of the answer.
        message: of the error; empty without one.
        status: name of the error, such as ``PERMISSION_DENIED``; empty: what the code most often stands for.
    """

    at: datetime
    insert_id: str
    method: Method
    project: str
    resource: str
    caller: Caller | None
    client_ip: str
    user_agent: str
    request: Mapping[str, Any] | None
    response: Mapping[str, Any] | None
    granted: bool | None
    code: int
    message: str
    status: str = ""


def entry_of(call: AuditedCall, now: datetime | None = None) -> dict[str, Any]:
    """Return the LogEntry of a call, as JSON data that is at most ``LONGEST_LINE`` long when written in ASCII."""
    kind = call.method.kind
    refused = call.code >= _OK
    severity = "ERROR" if refused else "NOTICE" if kind is AuditKind.ADMIN_ACTIVITY else "INFO"
    project = bounded_name(call.project)
    return {
        "protoPayload": _payload(call, refused=refused),
        "insertId": bounded_name(call.insert_id),
        "resource": {
            "type": "audited_resource",
            "labels": {"project_id": project, "service": _service(call.method), "method": call.method.audit},
        },
        "timestamp": written(micros(call.at)),
        "severity": severity,
        "logName": f"projects/{project}/logs/cloudaudit.googleapis.com%2F{kind.value}",
        "receiveTimestamp": written(micros(now or datetime.now(UTC))),
    }


def _payload(call: AuditedCall, *, refused: bool) -> dict[str, Any]:
    resource = bounded_name(call.resource)
    payload: dict[str, Any] = {
        "@type": f"{_TYPE}/google.cloud.audit.AuditLog",
        "status": _status(call) if refused else {},
        "authenticationInfo": _who(call.caller),
        "requestMetadata": {
            "callerIp": bounded_name(call.client_ip),
            "callerSuppliedUserAgent": bounded_name(call.user_agent),
            "requestAttributes": {"time": written(micros(call.at)), "auth": {}},
            "destinationAttributes": {},
        },
        "serviceName": _service(call.method),
        "methodName": call.method.audit,
    }
    if call.method.permission is not None and call.granted is not None:
        asked = {"permission": call.method.permission, "granted": call.granted}
        payload["authorizationInfo"] = [{"resource": resource, **asked, "resourceAttributes": dict[str, str]()}]
    payload["resourceName"] = resource
    payload["request"] = _request(call, resource)
    if call.response is not None:
        payload["response"] = {"@type": _answer_type(call.method), **bounded(_without_type(call.response))}
    return payload


def _service(method: Method) -> str:
    return _LOGGING if method.audit.startswith("google.logging.") else SERVICE


def _who(caller: Caller | None) -> dict[str, Any]:
    if caller is None:
        return {}
    if caller.email.startswith("principal:"):
        return {"principalSubject": bounded_name(caller.email)}
    return {"principalEmail": bounded_name(caller.email)}


def _status(call: AuditedCall) -> dict[str, Any]:
    name = call.status or _BY_CODE.get(call.code, "")
    return {"code": _RPC_CODES.get(name, _UNKNOWN), "message": bounded_text(call.message)}


def _request(call: AuditedCall, resource: str) -> dict[str, Any]:
    """Return the request as the service's own messages would have it.

    A Job is a field of theirs, and the path is one too.
    """
    method = call.method
    service, _, verb = method.audit.rpartition(".")
    package = _IAM if service.startswith(_IAM) else service.rpartition(".")[0]
    place = "resource" if package == _IAM else "parent" if verb.startswith(("Create", "List")) else "name"
    named = "/".join(resource.split("/")[:2]) if place == "parent" else resource
    found = {"@type": f"{_TYPE}/{package}.{verb}Request"}
    if _service(method) == SERVICE:
        found[place] = named
    given = bounded(_without_type(call.request or {}))
    if method.request == "Job":
        return found | {"job": given}
    return given | found


def _answer_type(method: Method) -> str:
    if method.response == "Empty":
        return f"{_TYPE}/{_EMPTY}"
    package = _IAM if method.audit.startswith(_IAM) else method.audit.rpartition(".")[0].rpartition(".")[0]
    return f"{_TYPE}/{package}.{method.response}"


def _without_type(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "@type"}
