"""The state of a request while it is answered, and its entry in the audit log."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from encamp.api.answering import data_of
from encamp.api.audit import AuditedCall
from encamp.api.methods import AuditKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from starlette.datastructures import Headers

    from encamp.api.answering import Answer
    from encamp.api.caller import Caller
    from encamp.api.errors import ApiError
    from encamp.api.methods import Method
    from encamp.api.project import Project

_LONGEST: Final = 200


@dataclass
class Request:
    """A request, as far as it was read.

    Attributes:
        at: when it came; with a time zone.
        arrived: the same by ``time.monotonic``.
        client: address that it came from.
        method: None if it means none.
        named: the resource: ``job`` or ``location``.
        sent: the body, or the parameters of the query.
        granted: whether the caller had the method's permission; None if it did not come to that.
        written: id of the job whose create was begun.
        is_told: whether its answer says what became of it.
    """

    at: datetime
    arrived: float
    headers: Headers
    client: str
    method: Method | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    caller: Caller | None = None
    sent: Mapping[str, Any] | None = None
    granted: bool | None = None
    written: str | None = None
    is_told: bool = False

    def audited(self, project: Project, answer: Answer, error: ApiError | None) -> AuditedCall | None:
        """Return the entry of the call, None if it meant no method."""
        if self.method is None:
            return None
        changed = self.method.kind is AuditKind.ADMIN_ACTIVITY and error is None
        denied = error is not None and error.status == "PERMISSION_DENIED"
        return AuditedCall(
            at=self.at,
            insert_id=uuid.uuid4().hex,
            method=self.method,
            project=project.id,
            resource=self._resource(project),
            caller=self.caller,
            client_ip=self.client,
            user_agent=self.headers.get("user-agent", ""),
            request=self.sent,
            response=data_of(answer) if changed else None,
            granted=False if denied else self.granted,
            code=error.code if error is not None else 200,
            message=error.message if error is not None else "",
            status=error.status if error is not None else "",
        )

    def _resource(self, project: Project) -> str:
        parts = [f"{kind}s/{self.named[kind][:_LONGEST]}" for kind in ("job", "location") if kind in self.named]
        return "/".join([project.resource, *parts])
