"""A collection of an API, declared once: its path, its creates and updates, its rules, its server-side defaults.

``routes`` gives the methods of the collection: list, create, get, update, delete and, where it has them, its policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.iam.methods import policy_routes
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Change, judge
from encamp_sandbox.cloud.rest.values import at, masked, merged

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Rule
    from encamp_sandbox.cloud.rest.styles import Plain
    from encamp_sandbox.cloud.store import CloudResource

Body = dict[str, Any]
#: Takes the id of a new resource, and the resource itself, out of a create's body; None for an id that is given later.
Identify = Callable[["Ask", Body], tuple[str | None, Body]]


class Update(Enum):
    """The meaning of fields that an update's body lacks."""

    #: They stay: the body is merged into the resource (compute.patch).
    MERGE = auto()
    #: A field mask says which fields are changed (AIP-134).
    MASK = auto()
    #: They go: the body is the whole resource (PUT).
    REPLACE = auto()


_HTTP = {Update.MERGE: ("PATCH",), Update.MASK: ("PATCH",), Update.REPLACE: ("PUT", "PATCH")}


def named_in_body(key: str = "name") -> Identify:
    """Return an identification by a field of the resource."""

    def identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
        del ask
        if not isinstance(body.get(key), str) or not body[key]:
            raise GoogleError(400, f"Invalid value for field '{key}': it is required.", reason="required")
        return body[key].rpartition("/")[2], body

    return identify


def named_in_query(key: str) -> Identify:
    """Return an identification by a parameter of the query."""

    def identify(ask: Ask, body: Body) -> tuple[str | None, Body]:
        if not (found := ask.call.query.get(key)):
            raise GoogleError(400, f"The parameter {key} is required.", reason="required")
        return found, body

    return identify


def named_by_server(ask: Ask, body: Body) -> tuple[str | None, Body]:
    """Leave the id to the server."""
    del ask
    return None, body


@dataclass(frozen=True)
class Collection:
    """One collection.

    Attributes:
        kind: the store's kind, the collection in the singular.
        path: full name of the collection, with names in braces.
        style: how the API words its answers.
        permission: of IAM, without the verb.
        identify: where the id of a new resource stands.
        new_id: gives ids where the server does.
        rules: what the API refuses, at creates and updates.
        fill: adds what the server fills in at a create.
        mend: adds what the server fills in at an update.
        show: fields that every read computes, by the stored resource.
        needs: full names of resources that have to exist.
        users: full names of resources that use one: while there are any, it cannot be deleted.
        update: what an update looks like; None if there is none.
        fixed: dotted paths that an update cannot change.
        unwrap: takes the resource out of an update's body.
        policy: whether its resources have IAM policies.
        permissions: permissions that do not follow from ``permission``, by verb.
        created: what else is made with a resource, in the same transaction.
        deleted: what happens instead of the deletion of the row.
        list_of: key of a list's items; by default the path's last word.
    """

    kind: str
    path: str
    style: Plain
    permission: str
    identify: Identify = field(default_factory=named_in_body)
    new_id: Callable[[], str] = str
    rules: tuple[Rule, ...] = ()
    fill: Callable[[Change], None] = lambda _change: None
    mend: Callable[[Change], None] = lambda _change: None
    show: Callable[[CloudResource, Cloud], Body] = lambda _resource, _cloud: {}
    needs: Callable[[Change], Iterable[str]] = lambda _change: ()
    users: Callable[[CloudResource, Cloud], list[str]] = lambda _resource, _cloud: []
    update: Update | None = None
    fixed: tuple[str, ...] = ()
    unwrap: Callable[[Body], Body] = lambda body: body
    policy: bool = False
    permissions: Mapping[str, str] = field(default_factory=dict)
    created: Callable[[CloudResource, Cloud], None] = lambda _resource, _cloud: None
    deleted: Callable[[CloudResource, Cloud], None] | None = None
    list_of: str = ""

    def routes(self) -> Iterable[Route]:
        """Yield the methods of the collection."""
        one = f"{self.path}/{{{self.kind}}}"
        plural = self.path.rpartition("/")[2]
        make = partial(Route, collection=plural)
        yield make(self.path, ("GET",), self.list)
        yield make(self.path, ("POST",), self.create, operation="create", named=self._named)
        yield make(one, ("GET",), self.get)
        yield make(one, ("DELETE",), self.delete, operation="delete")
        if self.update is not None:
            yield make(one, _HTTP[self.update], self.change, operation="update")
        if self.policy:
            yield from policy_routes(one, self.permission, self._exists)

    def shown(self, resource: CloudResource, cloud: Cloud) -> Body:
        """Return a resource as its API shows it, without the sandbox's own notes, which begin with ``_``."""
        body = {key: value for key, value in resource.body.items() if not key.startswith("_")}
        return {**body, **self.style.decorate(resource, cloud), **self.show(resource, cloud)}

    async def list(self, ask: Ask) -> Body:
        """Return one page of the resources below a parent; ``-`` stands for every location."""
        ask.require(self._permission("list"))
        parent = ask.parent.removesuffix("/locations/-")
        found = [self.shown(one, ask.cloud) for one in ask.cloud.store.all_of(self.kind, parent)]
        return self.style.listed(ask, self.list_of or self.path.rpartition("/")[2], found)

    async def get(self, ask: Ask) -> Body:
        """Return one resource."""
        ask.require(self._permission("get"), ask.name)
        return self.shown(self.find(ask.name, ask.cloud), ask.cloud)

    async def create(self, ask: Ask) -> Body:
        """Make a resource as a caller and the server want it."""
        ask.require(self._permission("create"))
        identifier, draft = self.identify(ask, await ask.call.json())
        name = f"{ask.name}/{identifier if identifier is not None else self.new_id()}"
        return self.make(ask.cloud, name, draft)

    def make(self, cloud: Cloud, name: str, draft: Body) -> Body:
        """Make a resource and answer as the API does."""
        with cloud.database.transaction():
            body = deepcopy({key: value for key, value in draft.items() if value is not None})
            change = Change(cloud, name, body, given=draft)
            self._check_needs(change)
            if cloud.store.find(name) is not None:
                raise self.style.taken(name)
            judge(self.rules, change)
            self.fill(change)
            resource = cloud.store.create(self.kind, name, change.body)
            self.created(resource, cloud)
            return self.style.created(resource, self.shown(resource, cloud), cloud)

    async def change(self, ask: Ask) -> Body:
        """Change a resource as a caller wants it."""
        ask.require(self._permission("update"), ask.name)
        patch = self.unwrap(await ask.call.json())
        mask = ask.call.query.get("updateMask") or ask.call.query.get("update_mask")
        return self.alter(ask.cloud, ask.name, patch, mask=mask, query=ask.call.query)

    def alter(
        self, cloud: Cloud, name: str, patch: Body, *, mask: str | None = None, query: Mapping[str, str] | None = None
    ) -> Body:
        """Change a resource and answer as the API does."""
        with cloud.database.transaction():
            present = self.find(name, cloud)
            self.style.check_fresh(present, patch, query or {})
            requested = {key: value for key, value in patch.items() if key not in self.style.ignored}
            body = self._altered(present.body, requested, mask)
            change = Change(cloud, name, body, before=present.body, given=requested)
            self._check_fixed(change)
            self._check_needs(change)
            judge(self.rules, change)
            self.mend(change)
            resource = cloud.store.update(name, change.body)
            return self.style.changed(resource, self.shown(resource, cloud), cloud)

    def _altered(self, present: Body, requested: Body, mask: str | None) -> Body:
        if self.update is Update.MASK and mask is not None:
            return masked(present, requested, mask)
        if self.update is Update.REPLACE:
            return deepcopy(requested)
        return merged(present, requested)

    async def delete(self, ask: Ask) -> Body:
        """Delete a resource."""
        ask.require(self._permission("delete"), ask.name)
        with ask.cloud.database.transaction():
            resource = self.find(ask.name, ask.cloud)
            self.style.check_fresh(resource, {}, ask.call.query)
            if users := self.users(resource, ask.cloud):
                raise self.style.in_use(resource, users[0])
            if self.deleted is None:
                ask.cloud.store.delete(resource.name)
            else:
                self.deleted(resource, ask.cloud)
            return self.style.deleted(resource, ask.cloud)

    def find(self, name: str, cloud: Cloud) -> CloudResource:
        """Return the resource of a full name.

        Raises:
            GoogleError: 404 in the API's words.
        """
        found = cloud.store.find(name)
        if found is None or found.kind != self.kind:
            raise self.style.missing(name)
        return found

    def _exists(self, ask: Ask) -> str:
        return self.find(ask.name, ask.cloud).name

    def _permission(self, verb: str) -> str:
        return self.permissions.get(verb) or f"{self.permission}.{verb}"

    def _check_needs(self, change: Change) -> None:
        for need in self.needs(change):
            if change.cloud.store.find(need) is None:
                raise self.style.missing(need)

    def _check_fixed(self, change: Change) -> None:
        for path in self.fixed:
            if at(change.before, path) != at(change.body, path):
                message = f"Invalid value for field '{path}': it cannot be changed."
                raise GoogleError(400, message, reason="invalid", belief="api-fixed-fields")

    async def _named(self, ask: Ask) -> str | None:
        try:
            identifier, _ = self.identify(ask, await ask.call.json())
        except GoogleError:
            return None
        return None if identifier is None else f"{ask.name}/{identifier}"
