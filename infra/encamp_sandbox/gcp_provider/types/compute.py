"""Networks, subnetworks, routers, address translation and resource policies of Compute Engine.

Source: hashicorp/terraform-provider-google-beta google-beta/services/compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.values import short
from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Made, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.gcp_provider.model import Context
    from encamp_sandbox.provider import Properties

_API = "compute/v1"
_OWN = frozenset({"project", "deletionPolicy", "params"})
_MISSING = 404


def _regional(collection: str) -> Callable[[Properties, Context], str]:
    return lambda inputs, context: (
        f"projects/{context.project_of(inputs)}/regions/{context.region_of(inputs)}/{collection}"
    )


def _operation(operation: Body, name: str) -> str:
    """Return the path of an operation: operations lie beside the resource's collection."""
    return f"{name.rsplit('/', 2)[0]}/operations/{operation['name']}"


def _in_region(body: Body, inputs: Properties, context: Context) -> tuple[Body, dict[str, str]]:
    region = f"projects/{context.project_of(inputs)}/regions/{context.region_of(inputs)}"
    network = body.get("network")
    if network and "/" not in str(network):
        body["network"] = f"projects/{context.project_of(inputs)}/global/networks/{network}"
    return {**body, "region": region}, {}


NETWORK: Final = ResourceType(
    "gcp:compute/network:Network",
    _API,
    lambda inputs, context: f"projects/{context.project_of(inputs)}/global/networks",
    TypeMapping(
        names={
            "routingMode": "routingConfig.routingMode",
            "bgpBestPathSelectionMode": "routingConfig.bgpBestPathSelectionMode",
            "gatewayIpv4": "gatewayIPv4",
            "networkId": "id",
            "numericId": "id",
        },
        own=_OWN | {"deleteDefaultRoutesOnCreate", "deleteBgpAlwaysCompareMed"},
    ),
    wait=True,
    operations=_operation,
    change=Change.PATCH,
)


class _Subnetworks(ResourceType):
    """Some of a subnetwork's properties are changed by methods of their own."""

    async def send(self, name: str, body: Body, fields: list[str], outputs: Properties, context: Context) -> None:
        """Change one property after the other, the rest by a patch with the present fingerprint."""
        del outputs
        methods = {"privateIpGoogleAccess": "setPrivateIpGoogleAccess", "ipCidrRange": "expandIpCidrRange"}
        path = self.path(name)
        for field in set(methods) & set(fields):
            answer = await context.rest.call(
                "POST", f"{path}/{methods[field]}", context.patience, body={field: body.get(field)}
            )
            await self.finish(answer, name, context)
        if left := [field for field in fields if field not in methods]:
            present = await context.rest.call("GET", path, context.patience)
            patch = {field: body.get(field) for field in left} | {"fingerprint": present["fingerprint"]}
            answer = await context.rest.call("PATCH", path, context.patience, body=patch)
            await self.finish(answer, name, context)


def _logged(config: Body | None) -> Body:
    """Return the log config of a subnetwork: flow logs are on if they are configured."""
    return {"enable": False} if config is None else {"enable": True, **config}


def _draft_subnetwork(body: Body, inputs: Properties, context: Context) -> tuple[Body, dict[str, str]]:
    body, query = _in_region(body, inputs, context)
    return {**body, "logConfig": body.get("logConfig") or _logged(None)}, query


SUBNETWORK: Final = _Subnetworks(
    "gcp:compute/subnetwork:Subnetwork",
    _API,
    _regional("subnetworks"),
    TypeMapping(
        names={"subnetworkId": "id"},
        out={"logConfig": _logged},
        into={
            "region": short,
            "subnetworkId": lambda value: int(str(value)[:15]),
            "logConfig": lambda config: config if config.get("enable") else None,
        },
        own=_OWN | {"sendSecondaryIpRangeIfEmpty"},
    ),
    prepare=_draft_subnetwork,
    wait=True,
    operations=_operation,
    change=Change.PATCH,
)

ROUTER: Final = ResourceType(
    "gcp:compute/router:Router",
    _API,
    _regional("routers"),
    TypeMapping(into={"region": short}, own=_OWN),
    prepare=_in_region,
    wait=True,
    operations=_operation,
    change=Change.PATCH,
)


class _Nats(ResourceType):
    """Address translation is an entry of its router's list."""

    def _router(self, inputs: Properties, context: Context) -> str:
        return f"{self.collection(inputs, context)}/{short(inputs['router'])}"

    def name(self, inputs: Properties, context: Context) -> str:
        """Return the full name as Pulumi's id has it."""
        place = f"{context.project_of(inputs)}/{context.region_of(inputs)}"
        return f"{place}/{short(inputs['router'])}/{inputs['name']}"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Add the entry."""
        entry = self.mapping.body(self.schema.fields, inputs)

        def added(nats: list[Body]) -> list[Body]:
            if any(nat["name"] == entry["name"] for nat in nats):
                name = self.name(inputs, context)
                raise GoogleError(409, f"Already exists: {name}.")
            return [*nats, entry]

        await self._rewrite(self._router(inputs, context), added, context)
        return await self._shown(inputs, context)

    async def _rewrite(self, router: str, change: Callable[[list[Body]], list[Body]], context: Context) -> None:
        async with context.rest.lock(router):
            found = await context.rest.call("GET", self.path(router), context.patience)
            body = {"nats": change(list(found.get("nats") or ()))}
            answer = await context.rest.call("PATCH", self.path(router), context.patience, body=body)
            await self.finish(answer, router, context)

    async def _shown(self, inputs: Properties, context: Context) -> Made:
        found = await self.read(self.name(inputs, context), inputs, context)
        if found is None:
            raise GoogleError(404, f"Not found: {self.name(inputs, context)}.")
        return found

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the entry; an import names it by its id."""
        project, region, router, name = resource_id.split("/")[-4:]
        path = self.path(f"projects/{project}/regions/{region}/routers/{router}")
        found = await context.rest.find(path, context.patience)
        for nat in (found or {}).get("nats") or ():
            if nat["name"] == name:
                outputs = self.outputs(nat, inputs, context)
                return Made(resource_id, {**outputs, "region": region, "router": router})
        return None

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Replace the entry."""
        del made, changed
        entry = self.mapping.body(self.schema.fields, inputs)
        router = self._router(inputs, context)
        await self._rewrite(
            router, lambda nats: [entry if nat["name"] == entry["name"] else nat for nat in nats], context
        )
        return await self._shown(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Take the entry away; a router that is gone has taken it with it."""
        name = resource_id.rpartition("/")[2]
        try:
            await self._rewrite(
                self._router(inputs, context), lambda nats: [nat for nat in nats if nat["name"] != name], context
            )
        except GoogleError as error:
            if error.code != _MISSING:
                raise


ROUTER_NAT: Final = _Nats(
    "gcp:compute/routerNat:RouterNat",
    _API,
    _regional("routers"),
    TypeMapping(own=_OWN | {"router", "region"}),
    wait=True,
    operations=_operation,
    change=Change.PATCH,
)


RESOURCE_POLICY: Final = ResourceType(
    "gcp:compute/resourcePolicy:ResourcePolicy",
    _API,
    _regional("resourcePolicies"),
    TypeMapping(into={"region": short}, own=_OWN),
    prepare=_in_region,
    wait=True,
    operations=_operation,
    change=Change.PATCH,
)

COMPUTE_TYPES: Final = (NETWORK, SUBNETWORK, ROUTER, ROUTER_NAT, RESOURCE_POLICY)
