"""Create, update and delete against the API server, as pulumi-kubernetes' provider/pkg/await does them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.property_paths import parse_path
from encamp_sandbox.kubernetes.client import APPLY, JSON_PATCH, ApiError
from encamp_sandbox.kubernetes.discovery import DEFAULT_NAMESPACE, NOT_FOUND
from encamp_sandbox.kubernetes.objects import (
    PATCH_FORCE,
    annotation,
    identity,
    metadata,
    name_of,
    namespace_of,
)
from encamp_sandbox.kubernetes.ownership import is_ours_to_take, owned_by_others, takeover
from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.property_paths import Path
    from encamp_sandbox.kubernetes.client import Client
    from encamp_sandbox.kubernetes.discovery import Discovery, Mapped
    from encamp_sandbox.provider import Properties

RETRY_PAUSES: Final = (1.0, 2.0, 4.0, 8.0)
"""A namespace or a definition made in the same run may take a moment until it can be used."""

TAKEOVER_TRIES: Final = 5
DEFINITION: Final = "CustomResourceDefinition"


@dataclass(frozen=True)
class Write:
    """One write: the wanted object, its field manager, and whether it is a dry run (``dryRun=All``)."""

    inputs: Properties
    manager: str
    preview: bool
    force: bool = False

    def query(self, *, apply: bool = False) -> dict[str, str]:
        """Return the request's parameters."""
        query = {"fieldManager": self.manager, "fieldValidation": "Warn"}
        if self.preview:
            query["dryRun"] = "All"
        if apply and self.force:
            query["force"] = "true"
        return query


class Operations:
    """Writes objects of one cluster; ``cancelled`` ends retries."""

    def __init__(self, client: Client, discovery: Discovery, cancelled: asyncio.Event) -> None:
        self._client = client
        self._discovery = discovery
        self._cancelled = cancelled

    async def path(self, obj: Mapping[str, Any], name: str | None = None) -> str:
        """Return the REST path of an object.

        Raises:
            NoMatchError: the server does not serve the kind.
        """
        mapped = await self._mapped(obj)
        return mapped.item(namespace_of(obj), name or name_of(obj))

    async def _mapped(self, obj: Mapping[str, Any]) -> Mapped:
        return await self._discovery.find(str(obj["apiVersion"]), str(obj["kind"]))

    async def create(self, write: Write, *, upsert: bool) -> Properties:
        """Create by POST and return the live object.

        Raises:
            ApiError: refused; ``AlreadyExists`` unless ``upsert``, which applies the inputs to what is there.
            NoMatchError: the server does not serve the kind, also not after a while.
        """
        for pause in (*RETRY_PAUSES, None):
            try:
                return await self._create_once(write, upsert=upsert)
            except ApiError as error:
                if error.status != NOT_FOUND or pause is None or write.preview or self._cancelled.is_set():
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try has returned or raised")

    async def _create_once(self, write: Write, *, upsert: bool) -> Properties:
        mapped = await self._mapped(write.inputs)
        body = _body(write.inputs, mapped)
        try:
            live = await self._client.request(
                "POST", mapped.collection(namespace_of(body)), query=write.query(), body=body
            )
        except ApiError as error:
            if error.reason != "AlreadyExists" or not upsert:
                raise
            live = await self._apply(write, mapped, body)
        if write.inputs["kind"] == DEFINITION and not write.preview:
            self._discovery.forget()
        return live

    async def update(self, write: Write, ignore_changes: Sequence[str]) -> Properties:
        """Apply the inputs to the object there is, and return it.

        Raises:
            ApiError: refused, or it does not exist.
        """
        mapped = await self._mapped(write.inputs)
        path = mapped.item(namespace_of(write.inputs), name_of(write.inputs))
        live = await self._client.get(path)
        body = _body(write.inputs, mapped)
        if write.inputs["kind"] == DEFINITION:
            body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
            return await self._client.request("PUT", path, query=write.query(), body=body)
        entries = live["metadata"].get("managedFields") or []
        if write.preview:
            taken = any(is_ours_to_take(entry, write.manager) for entry in entries)
            write = Write(write.inputs, write.manager, write.preview, write.force or taken)
        else:
            live = await self._take_over(path, live, write.manager)
        for ignored in ignore_changes:
            _keep(body, live, parse_path(ignored), write.manager)
        return await self._apply(write, mapped, body)

    async def _apply(self, write: Write, mapped: Mapped, body: Properties) -> Properties:
        forced = write.force or annotation(body, PATCH_FORCE) == "true"
        write = Write(write.inputs, write.manager, write.preview, forced)
        path = mapped.item(namespace_of(body), name_of(body))
        try:
            return await self._client.request(
                "PATCH", path, query=write.query(apply=True), body=body, content_type=APPLY
            )
        except ApiError as error:
            if error.reason == "Conflict":
                raise ApiError(
                    error.status,
                    error.reason,
                    f"server-side apply by field manager {write.manager} met a conflict: {error.what}; "
                    f"the annotation {PATCH_FORCE}: 'true' takes the fields over",
                    error.details,
                ) from error
            raise

    async def _take_over(self, path: str, live: Properties, manager: str) -> Properties:
        for _ in range(TAKEOVER_TRIES):
            patch = takeover(live, manager)
            if patch is None:
                return live
            try:
                return await self._client.request("PATCH", path, body=patch, content_type=JSON_PATCH)
            except ApiError as error:
                # A controller wrote in between: the patch's test of the resourceVersion failed.
                if error.reason not in ("Invalid", "Conflict"):
                    raise
            live = await self._client.get(path)
        raise ProviderError("its field managers change all the time", where=identity(live))

    async def delete(self, path: str, propagation: str) -> str | None:
        """Ask for the deletion; the uid of what is being deleted, None if nothing is there."""
        try:
            live = await self._client.get(path)
            body = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": propagation,
                "preconditions": {"uid": live["metadata"]["uid"]},
            }
            await self._client.request("DELETE", path, body=body)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return live["metadata"]["uid"]


def _body(inputs: Properties, mapped: Mapped) -> Properties:
    fields = dict(metadata(inputs))
    if mapped.namespaced:
        fields["namespace"] = fields.get("namespace") or DEFAULT_NAMESPACE
    else:
        fields.pop("namespace", None)
    return {**inputs, "metadata": fields}


def _keep(body: Properties, live: Mapping[str, Any], path: Path, manager: str) -> None:
    """Leave an ignored field as it is: out of the request where it is somebody else's, else as it is live."""
    *parents, last = path
    target: Any = body
    value: Any = live
    for key in parents:
        target = target.get(key) if isinstance(target, dict) else None
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(target, dict) or not isinstance(value, dict) or last not in value:
        return
    if owned_by_others(live, path, manager):
        target.pop(last, None)
    else:
        target[last] = value[last]
