"""One engine connection's operations on one cluster: the resource operations of the ``kubernetes`` package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.property_paths import parse_path, within
from encamp_sandbox.kubernetes.client import ApiError, Client, UnreachableError
from encamp_sandbox.kubernetes.discovery import DEFAULT_NAMESPACE, NOT_FOUND, Discovery, NoMatchError
from encamp_sandbox.kubernetes.objects import (
    AUTONAMED,
    INITIAL_API_VERSION_KEY,
    PROPAGATION,
    SKIP_AWAIT,
    annotation,
    checked,
    checkpoint,
    concealed,
    diff_path,
    field_manager,
    for_server,
    identity,
    kind_of_token,
    live_state,
    metadata,
    name_of,
    namespace_of,
    normal,
    previewed,
    prune,
    split_identity,
    with_name,
)
from encamp_sandbox.kubernetes.operations import Operations, Write
from encamp_sandbox.kubernetes.replacement import forces_replacement
from encamp_sandbox.kubernetes.waiting import Waiter, chosen_check, seconds
from encamp_sandbox.provider import (
    UNKNOWN,
    CheckResult,
    CreateResult,
    DiffResult,
    Failure,
    InitError,
    ProviderError,
    ReadResult,
    ResourceState,
    Session,
)
from encamp_sandbox.provider.compare import differences
from encamp_sandbox.provider.values import has_unknowns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp_sandbox.kubernetes.kubeconfig import ClusterAccess
    from encamp_sandbox.provider import Properties, Resource

FORBIDDEN: Final = 403
PROPAGATIONS: Final = {"orphan": "Orphan", "background": "Background", "foreground": "Foreground"}
CLUSTER_SCOPED: Final = frozenset(
    {"Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "StorageClass", "PriorityClass"}
    | {"CustomResourceDefinition", "RuntimeClass", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
)
"""Kinds without a namespace, used if the cluster cannot be asked."""

SKIPS_DELETE_AWAIT: Final = frozenset(
    {"Namespace", "Pod", "Deployment", "StatefulSet", "Job", "ReplicationController", "DaemonSet"}
)
"""Kinds whose ``skipAwait`` holds for a deletion too (await.go, allowsSkipAwaitWithDelete)."""


@dataclass(frozen=True)
class SessionOptions:
    """The provider's arguments that are no way into a cluster."""

    namespace: str = DEFAULT_NAMESPACE
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    mutable_config_maps: bool = False
    mutable_secrets: bool = False
    patch_force: bool = False
    upsert: bool = False


class KubernetesSession(Session):
    """Serves one cluster to one engine connection."""

    def __init__(self, access: ClusterAccess | ProviderError, options: SessionOptions) -> None:
        super().__init__()
        self.options = options
        self._client = Client(access)
        self._discovery = Discovery(self._client)
        self._operations = Operations(self._client, self._discovery, self.cancelled)

    async def close(self) -> None:
        """Drop the connections to the cluster."""
        await super().close()
        await self._client.close()

    async def check(self, resource: Resource, olds: Properties, news: Properties, *, seed: bytes) -> CheckResult:
        """Fill in apiVersion, kind, name and namespace."""
        if refusal := _refusal(resource.token):
            return CheckResult(news, [Failure("", refusal)])
        inputs = checked(for_server(news))
        failures: list[Failure] = []
        for key, wanted in zip(("apiVersion", "kind"), kind_of_token(resource.token), strict=True):
            if inputs.setdefault(key, wanted) not in (wanted, UNKNOWN):
                failures.append(Failure(key, f"{inputs[key]!r}, but the resource's type says {wanted!r}"))
        inputs = with_name(inputs, olds, resource.name, seed)
        fields = inputs.get("metadata")
        if isinstance(fields, dict) and not fields.get("namespace") and await self._namespaced(inputs):
            inputs["metadata"] = {**fields, "namespace": self.options.namespace}
        return CheckResult(concealed(inputs), failures)

    async def _namespaced(self, obj: Properties) -> bool:
        try:
            return (await self._discovery.find(str(obj["apiVersion"]), str(obj["kind"]))).namespaced
        except (NoMatchError, UnreachableError):
            return str(obj["kind"]) not in CLUSTER_SCOPED

    async def diff(
        self, resource: Resource, state: ResourceState, news: Properties, *, ignore_changes: Sequence[str]
    ) -> DiffResult:
        """Compare what the live object had of the old inputs' fields, as the state holds it, with the new inputs."""
        del resource
        old_inputs, new = normal(for_server(state.inputs)), normal(for_server(news))
        live = live_state(state.outputs)
        old = normal(prune(live, old_inputs)) if live else old_inputs
        namespaced = await self._namespaced(new)
        for obj in (old, new):
            if isinstance(obj.get("metadata"), dict):
                if not namespaced:
                    obj["metadata"].pop("namespace", None)
                elif not obj["metadata"].get("namespace"):
                    obj["metadata"]["namespace"] = DEFAULT_NAMESPACE
        ignored = [parse_path(text) for text in ignore_changes]
        changes = {
            path: change for path, change in differences(old, new) if not any(within(path, outer) for outer in ignored)
        }
        replaces = frozenset(path for path in changes if self._replaces(new, path))
        stays = name_of(new) == name_of(old) and namespace_of(new) == namespace_of(old)
        fixed = stays and annotation(new, AUTONAMED) != "true"
        again = bool(replaces) and fixed
        return DiffResult(changes, replaces, delete_before_replace=again, write=diff_path, of_outputs=True)

    def _replaces(self, new: Properties, path: tuple[str | int, ...]) -> bool:
        return forces_replacement(
            new,
            path,
            mutable_config_maps=self.options.mutable_config_maps,
            mutable_secrets=self.options.mutable_secrets,
        )

    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        """Create by POST, then wait; in a preview a dry run where the server can be asked."""
        del resource
        inputs = for_server(inputs)
        if preview and not await self._can_try(inputs):
            return CreateResult("", inputs)
        manager = field_manager(inputs, {})
        check = chosen_check(inputs)
        write = Write(inputs, manager, preview, force=self.options.patch_force)
        try:
            live = await self._operations.create(write, upsert=self.options.upsert)
        except ApiError as error:
            if preview and (error.status in (FORBIDDEN, NOT_FOUND) or error.reason == "AlreadyExists"):
                return CreateResult("", inputs)
            raise _failed("was not created", inputs, error) from error
        if preview:
            return CreateResult("", previewed(live, inputs, manager))
        if check:
            path = await self._operations.path(live)
            waiter = Waiter(self._client, path, self.cancelled)
            live, found = await waiter.ready(check, seconds(time_limit, inputs))
            if not found.ready:
                outputs = checkpoint(live, inputs, manager, inputs["apiVersion"])
                raise InitError(
                    identity(live), outputs, [f"{identity(live)} was created, but is not ready", found.reason]
                )
        return CreateResult(identity(live), checkpoint(live, inputs, manager, inputs["apiVersion"]))

    async def _can_try(self, inputs: Properties) -> bool:
        if has_unknowns(inputs):
            return False
        try:
            await self._discovery.find(str(inputs["apiVersion"]), str(inputs["kind"]))
        except (NoMatchError, UnreachableError):
            return False
        return True

    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        """Read the live object; its inputs are the same fields as before, or all but the server's for an import."""
        api_version, kind = kind_of_token(resource.token)
        namespace, name = split_identity(state.resource_id)
        known = for_server(state.inputs)
        obj = {"apiVersion": known.get("apiVersion") or api_version, "kind": kind, "metadata": {"namespace": namespace}}
        try:
            live = await self._client.get(await self._operations.path(obj, name))
        except UnreachableError as error:
            if self.options.delete_unreachable:
                return None
            if self.options.skip_update_unreachable:
                return ReadResult(state.resource_id, state.inputs, state.outputs)
            raise _unreachable(error) from error
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        inputs = prune(live, normal(known)) if known else _imported(live)
        first = str(state.outputs.get(INITIAL_API_VERSION_KEY) or obj["apiVersion"])
        outputs = checkpoint(live, inputs, field_manager(known, state.outputs), first)
        return ReadResult(identity(live), concealed(inputs), outputs)

    async def update(
        self,
        resource: Resource,
        state: ResourceState,
        news: Properties,
        *,
        time_limit: float | None,
        preview: bool,
        ignore_changes: Sequence[str],
    ) -> Properties:
        """Apply server-side, then wait; in a preview a dry run where the server can be asked."""
        del resource
        inputs = for_server(news)
        if preview and not await self._can_try(inputs):
            return inputs
        manager = field_manager(inputs, state.outputs)
        first = str(state.outputs.get(INITIAL_API_VERSION_KEY) or inputs["apiVersion"])
        check = chosen_check(inputs)
        write = Write(inputs, manager, preview, force=self.options.patch_force)
        try:
            live = await self._operations.update(write, ignore_changes)
        except ApiError as error:
            if preview and error.status == FORBIDDEN:
                return inputs
            raise _failed("was not updated", inputs, error) from error
        if check and not preview:
            waiter = Waiter(self._client, await self._operations.path(live), self.cancelled)
            live, found = await waiter.ready(check, seconds(time_limit, inputs))
            if not found.ready:
                outputs = checkpoint(live, inputs, manager, first)
                raise InitError(
                    identity(live), outputs, [f"{identity(live)} was updated, but is not ready", found.reason]
                )
        return checkpoint(live, inputs, manager, first)

    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        """Delete, by default in the foreground, and wait until the object is gone."""
        api_version, kind = kind_of_token(resource.token)
        live = live_state(state.outputs)
        namespace, name = split_identity(state.resource_id)
        obj = {"apiVersion": live.get("apiVersion") or api_version, "kind": kind, "metadata": {"namespace": namespace}}
        annotated = state.inputs or live
        propagation = PROPAGATIONS.get(annotation(annotated, PROPAGATION).lower(), "Foreground")
        try:
            path = await self._operations.path(obj, name)
            uid = await self._operations.delete(path, propagation)
            skips = annotation(annotated, SKIP_AWAIT) == "true" and kind in SKIPS_DELETE_AWAIT
            if uid and not skips:
                await Waiter(self._client, path, self.cancelled).gone(uid, seconds(time_limit, annotated))
        except UnreachableError as error:
            if not self.options.delete_unreachable:
                raise _unreachable(error) from error
        except NoMatchError:
            # Its definition is gone, and the object with it.
            return
        except ApiError as error:
            raise _failed(
                "was not deleted", {**obj, "metadata": {"namespace": namespace, "name": name}}, error
            ) from error


def _refusal(token: str) -> str | None:
    _, module, kind = token.split(":", 2)
    group = module.partition("/")[0]
    if group in ("helm.sh", "yaml", "kustomize", "index") or "/" not in module:
        return f"the sandbox's kubernetes provider does not serve {token}; render it to objects"
    if kind.endswith(("Patch", "List")):
        return f"the sandbox's kubernetes provider serves no {kind}; declare the object itself"
    return None


def _imported(live: Properties) -> Properties:
    inputs: dict[str, Any] = normal({key: item for key, item in live.items() if key != "status"})
    annotations = metadata(inputs).get("annotations") or {}
    for key in ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"):
        annotations.pop(key, None)
    if not annotations:
        metadata(inputs).pop("annotations", None)
    return inputs


def _failed(what: str, inputs: Properties, error: ApiError) -> ProviderError:
    hint = None
    if isinstance(error, NoMatchError):
        hint = "install the definition of this kind first"
    elif error.reason == "AlreadyExists":
        hint = "import it, or set the provider's upsertExistingObjects"
    return ProviderError(
        f"{what} by the API server: {error.what}", where=f"{inputs['kind']} {identity(inputs)}", hint=hint
    )


def _unreachable(error: UnreachableError) -> ProviderError:
    return ProviderError(
        f"the Kubernetes cluster is unreachable: {error.what}",
        where=error.where,
        hint="where the cluster is gone for good, set PULUMI_K8S_DELETE_UNREACHABLE=true to forget its resources",
    )
