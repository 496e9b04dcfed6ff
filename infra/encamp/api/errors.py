"""Errors of the service, in the form of Google's APIs.

Sources: cloud.google.com/apis/design/errors (status names, HTTP codes, google.rpc.Status and BadRequest); the job
model, section 1.5 (how a wrong field is told).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.errors import Problem
from encamp.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence

#: HTTP code of each status name that the service answers with.
CODES: Final = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ApiError(Exception):
    """A request that is refused.

    Args:
        status: one of ``CODES``.
        message: for the caller; never holds what they may not read.
        details: google.protobuf.Any as JSON, each with its ``@type``.
        code: HTTP code where it is not the usual one of the status, such as 405 or 413.
        retry_after: seconds after which another try makes sense; None if that depends on more than time.
    """

    def __init__(
        self,
        status: str,
        message: str,
        *,
        details: Sequence[dict[str, Any]] = (),
        code: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        message = redacted(message)
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.details = tuple(details)
        self.code = code if code is not None else CODES[status]
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message, "status": self.status}
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}


def wrong_fields(problems: Sequence[Problem]) -> ApiError:
    """Return every problem of a Job: the first in the message, each as a violation."""
    first = problems[0]
    message = f"Field: {field_name(first.path)} Error: {_sentence(first)}"
    violations = [{"field": field_name(one.path), "description": redacted(_sentence(one))} for one in problems]
    details = [{"@type": _BAD_REQUEST, "fieldViolations": violations}]
    return ApiError("INVALID_ARGUMENT", message, details=details)


def wrong_field(path: str, what: str) -> ApiError:
    """Return one thing that is wrong with a request."""
    return wrong_fields([Problem(path, None, None, what)])


def field_name(path: str) -> str:
    """Return a field's path as the service named it: ``trainingInput.workerCount`` is ``training_input.worker_count``.

    Keys of labels are the caller's own words, and stay as they are.
    """
    field, labels, key = path.partition("labels.")
    return _CAPITAL.sub("_", field).lower() + labels + key


def _sentence(problem: Problem) -> str:
    return f"{problem.message}; try: {problem.hint}" if problem.hint else problem.message
