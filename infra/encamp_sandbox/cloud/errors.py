"""Refusals of Google's APIs, in the shape that they answer them.

Sources: cloud.google.com/apis/design/errors (status names and HTTP codes); google.rpc.Status.
"""

from __future__ import annotations

from typing import Any

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_REASON = {
    400: "badRequest",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    405: "methodNotAllowed",
    409: "alreadyExists",
    412: "conditionNotMet",
    429: "rateLimitExceeded",
    500: "backendError",
    503: "backendError",
}


class GoogleError(Exception):
    """A request that an API refuses.

    Args:
        code: HTTP status.
        message: what the caller reads.
        reason: the older APIs' reason word; by default the usual one of the code.
        status: the newer APIs' status name; by default the usual one of the code.
        belief: id of the belief that the refusal follows, empty for none; a header of the answer tells it.
    """

    def __init__(
        self, code: int, message: str, *, reason: str | None = None, status: str | None = None, belief: str = ""
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.reason = reason or _REASON.get(code, "backendError")
        self.status = status or _STATUS.get(code, "UNKNOWN")
        self.belief = belief

    def __str__(self) -> str:
        return f"googleapi: Error {self.code}: {self.message}, {self.reason}"

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the answer: one that clients of the older and of the newer form read."""
        problem = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.code, "message": self.message, "status": self.status, "errors": [problem]}}


def not_found(name: str) -> GoogleError:
    """Return the error for a full name that does not exist."""
    return GoogleError(404, f"Not found: {name}.", belief="api-missing-is-404")


def already_exists(name: str) -> GoogleError:
    """Return the error for a name that is taken."""
    return GoogleError(409, f"Already exists: {name}.", belief="api-duplicate-is-409")


def aborted(message: str) -> GoogleError:
    """Return the error for a resource that changed since the caller read it; the newer APIs answer 409."""
    return GoogleError(409, message, reason="aborted", status="ABORTED", belief="api-stale-etag-is-409")


def failed_precondition(message: str, *, belief: str = "") -> GoogleError:
    """Return the error for a resource whose state does not allow the call; the newer APIs answer 400."""
    return GoogleError(400, message, reason="failedPrecondition", status="FAILED_PRECONDITION", belief=belief)


def permission_denied(permission: str, resource: str) -> GoogleError:
    """Return the error for a missing permission on a resource."""
    return GoogleError(
        403, f"Permission '{permission}' denied on resource '{resource}' (or it may not exist).", reason="forbidden"
    )
