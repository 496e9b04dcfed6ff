"""Admin API of the sandbox's cloud for its own processes and tests, under ``/encamp/v1``; administrators only.

- ``POST workloadTokens`` ``{"namespace": …, "serviceAccount": …}``: the kubelet's metadata server asks for the token of
  a Kubernetes service account without a Google one, as GKE's exchanges it at the Security Token Service.
- ``POST memberTokens`` ``{"member": "user:…"}``: somebody else's token, to try what they may do: a user's or a service
  account's.
- ``PUT nodePools/<full name>/size`` ``{"currentNodeCount": n}``: the autoscaler tells how many nodes there are.
- ``GET | POST | DELETE faults``: what shall go wrong, in the form of ``faults.Fault``; a listed one says whether it was
  ``reached``. ``GET | DELETE faults/ID``: one of them, with what it struck; deleting one lets go what it holds up.
- ``POST strikes``: a provider in another process asks what strikes an operation, as ``faults.Asked``.
- ``GET resources?kind=&parent=``: what exists, every kind (``GET faults`` and this are for tests and for people).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp_sandbox.cloud.calls import no_such_method
from encamp_sandbox.cloud.errors import GoogleError, not_found
from encamp_sandbox.cloud.faults import Asked, Fault
from encamp_sandbox.cloud.services.container.node_pools import NODE_POOLS, set_node_count
from encamp_sandbox.cloud.services.iam.service import rfc3339, workload_principal

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp_sandbox.cloud.calls import Call
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.faults import FaultError
    from encamp_sandbox.cloud.store import CloudResource
    from encamp_sandbox.cloud.tokens import Tokens

_MEMBER = re.compile(r"(user|serviceAccount):[^\s:@\[\]]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


class AdminApi:
    """Serves ``/encamp/v1``."""

    def __init__(self, cloud: Cloud, tokens: Tokens) -> None:
        self._cloud = cloud
        self._store = cloud.store
        self._faults = cloud.faults
        self._tokens = tokens

    async def asked(self, call: Call) -> Asked | None:
        """Return None: no fault strikes here."""
        del call
        return None

    def failed(self, asked: Asked, error: FaultError) -> Response | None:
        """Return None: every fault refuses at once."""
        del asked, error
        return None

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        if not call.principal.admin:
            raise GoogleError(403, "Only the sandbox's administrator may call this.")
        match (call.method, *call.path):
            case ("PUT", "v1", "nodePools", *name, "size") if name:
                body = await call.json()
                changed = set_node_count(self._cloud, "/".join(name), body.get("currentNodeCount"))
                return JSONResponse(NODE_POOLS.shown(changed, self._cloud))
            case ("POST", "v1", "workloadTokens"):
                body = await call.json()
                principal = workload_principal(self._cloud.project, str(body["namespace"]), str(body["serviceAccount"]))
                token, expires = self._tokens.issue(principal)
                return JSONResponse({"accessToken": token, "expireTime": rfc3339(expires)})
            case ("POST", "v1", "memberTokens"):
                return self._member_token(str((await call.json()).get("member", "")))
            case (_, "v1", "faults" | "strikes", *rest):
                return await self._fault(call, rest)
            case ("GET", "v1", "resources"):
                kind, parent = call.query.get("kind", ""), call.query.get("parent", "")
                found = self._store.all_of(kind, parent) if kind else self._store.children(parent or "projects")
                return JSONResponse({"resources": [_shown(item) for item in found]})
        raise no_such_method(call)

    def _member_token(self, member: str) -> Response:
        kind, _, email = member.partition(":")
        if not _MEMBER.fullmatch(member):
            raise GoogleError(400, f"Invalid value for member: {member[:100]!r}. Write user:ana@example.com.")
        token, expires = self._tokens.issue(member if kind == "user" else email)
        return JSONResponse({"accessToken": token, "expireTime": rfc3339(expires)})

    async def _fault(self, call: Call, rest: list[str]) -> Response:
        match call.method, call.path[1], rest:
            case "GET", "faults", []:
                return JSONResponse({"faults": [fault.json(whole=False) for fault in self._faults.all()]})
            case "POST", "faults", []:
                return JSONResponse(self._faults.add(Fault.of(await call.json())).json(whole=False), status_code=201)
            case "DELETE", "faults", []:
                self._faults.clear()
                return JSONResponse({})
            case "GET", "faults", [number] if (found := self._faults.find(_number(number))) is not None:
                return JSONResponse(found.json(whole=True))
            case "GET", "faults", [number]:
                raise not_found(f"faults/{number}")
            case "DELETE", "faults", [number]:
                self._faults.remove(_number(number))
                return JSONResponse({})
            case "POST", "strikes", []:
                body = await call.json()
                strike = await self._faults.strike(Asked(body["type"], body["operation"], body["name"]))
                return JSONResponse({} if strike is None else {"kind": strike.kind, "fault": strike.fault})
        raise no_such_method(call)


def _number(text: str) -> int:
    if not text.isdigit():
        raise not_found(f"faults/{text}")
    return int(text)


def _shown(resource: CloudResource) -> dict[str, Any]:
    return {
        "name": resource.name,
        "kind": resource.kind,
        "labels": resource.labels,
        "createTime": resource.created,
        "updateTime": resource.updated,
        "etag": resource.etag,
        "body": resource.body,
    }
