"""Volumes of a pod as folders on disk: emptyDir, configMap, secret, projected, downwardAPI, and places for buckets.

They are filled when the pod starts. Secrets are looked at again every few seconds, but for files below a ``subPath``;
the kubelet's later refresh of ConfigMaps is not done. A volume in memory is a file system of its own in each container
that mounts it; without namespaces it is a folder on disk.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from encamp.cloud import quantity
from encamp_sandbox.kubelet import environment
from encamp_sandbox.kubelet.environment import ConfigError, object_data
from encamp_sandbox.kubelet.expansion import expand
from encamp_sandbox.kubelet.gcsfuse import check_volume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from encamp_sandbox.kubelet.environment import Lookup

    Token = Callable[[str, Mapping[str, Any]], Awaitable[str]]

_REFRESH_SECONDS = 2.0
#: Every namespace of a cluster has it; where no controller publishes it, the sandbox's own CA stands in.
_ROOT_CA = "kube-root-ca.crt"


class Volumes:
    """Makes the volumes of one pod below ``folder``.

    Args:
        lookup: gives a ConfigMap or Secret of the pod's namespace.
        token: gives a token of a Kubernetes ServiceAccount for a serviceAccountToken projection.
        authority: the CA certificate of the API server.
    """

    def __init__(self, pod: Mapping[str, Any], folder: Path, lookup: Lookup, token: Token, authority: Path) -> None:
        self._pod = pod
        self._folder = folder
        self._lookup = lookup
        self._token = token
        self._authority = authority

    async def make(self) -> None:
        """Make all of them. Raises ConfigError for what is missing or not supported."""
        for volume in self._pod["spec"].get("volumes") or []:
            place = self._folder / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            kind = next((key for key in volume if key != "name"), "emptyDir")
            if kind == "emptyDir":
                place.chmod(0o777)
            elif kind == "projected":
                for source in volume[kind].get("sources") or []:
                    (part, body) = next(iter(source.items()))
                    await self._fill(place, part, body, volume[kind].get("defaultMode"))
            elif kind == "csi":
                check_volume(self._pod, volume)
            else:
                await self._fill(place, kind, volume[kind], volume[kind].get("defaultMode"))

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Write Secrets anew when they change, as long as the context is open; one that cannot be read stays."""
        refresh = asyncio.create_task(self._keep_fresh())
        try:
            yield
        finally:
            refresh.cancel()

    async def _keep_fresh(self) -> None:
        again = [one for one in self._pod["spec"].get("volumes") or [] if "secret" in one]
        while again:
            await asyncio.sleep(_REFRESH_SECONDS)
            for volume in again:
                source = volume["secret"]
                with suppress(ConfigError):
                    await self._fill(self._folder / volume["name"], "secret", source, source.get("defaultMode"))

    async def _fill(self, place: Path, kind: str, source: Mapping[str, Any], mode: int | None) -> None:
        if kind in ("configMap", "secret"):
            contents = await self._object(kind, source)
        elif kind == "downwardAPI":
            contents = {item["path"]: self._downward(item).encode() for item in source.get("items") or []}
        elif kind == "serviceAccountToken":
            contents = {source["path"]: (await self._token(self._account, source)).encode()}
        else:
            raise ConfigError(f"the sandbox's kubelet has no volumes of kind {kind}")
        modes = {item["path"]: item.get("mode") for item in source.get("items") or []}
        _write(place, contents, modes, mode or 0o644)

    @property
    def _account(self) -> str:
        return self._pod["spec"].get("serviceAccountName") or "default"

    async def _object(self, kind: str, source: Mapping[str, Any]) -> dict[str, bytes]:
        name = source.get("secretName") or source.get("name") or ""
        found = await self._lookup(f"{kind.lower()}s", name)
        if found is None:
            if name == _ROOT_CA:
                return {"ca.crt": self._authority.read_bytes()}
            if source.get("optional"):
                return {}
            raise ConfigError(f'{kind.lower()} "{name}" not found')
        data = object_data(found)
        if not (items := source.get("items")):
            return data
        missing = [item["key"] for item in items if item["key"] not in data]
        if missing and not source.get("optional"):
            raise ConfigError(f"{kind.lower()} {name} has no key {', '.join(missing)}")
        return {item["path"]: data[item["key"]] for item in items if item["key"] in data}

    def _downward(self, item: Mapping[str, Any]) -> str:
        if "fieldRef" in item:
            return environment.field(self._pod, item["fieldRef"]["fieldPath"])
        return environment.resource_field(self._pod, {}, {}, item["resourceFieldRef"])

    def mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return a container's mounts as ``{source, target, read_only}``. Raises ConfigError for a wrong subPath."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes") or []}
        found = []
        for mount in container.get("volumeMounts") or []:
            base = self._folder / mount["name"]
            below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
            if "csi" in volumes[mount["name"]]:  # what is in it is seen by containers only
                read_only = bool(mount.get("readOnly"))
                source = {"source": str(base), "target": mount["mountPath"], "read_only": read_only, "below": below}
                found.append(source)
                continue
            source = base / below if below else base
            if not source.resolve().is_relative_to(base.resolve()):
                raise ConfigError(f"subPath {below} leads out of its volume")
            writable = "emptyDir" in volumes[mount["name"]]
            in_memory = (volumes[mount["name"]].get("emptyDir") or {}).get("medium") == "Memory"
            if in_memory and not below:
                size = _memory_bytes(volumes[mount["name"]]["emptyDir"], container)
                found.append({"source": str(base), "target": mount["mountPath"], "read_only": False, "memory": size})
                continue
            if below and writable:
                source.mkdir(parents=True, exist_ok=True)
            if not source.exists():
                raise ConfigError(f"volume {mount['name']} has no {below}")
            read_only = bool(mount.get("readOnly")) or not writable
            found.append({"source": str(source), "target": mount["mountPath"], "read_only": read_only})
        return sorted(found, key=lambda one: one["target"].count("/"))


def _memory_bytes(volume: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    """Return the size of a volume that lies in memory: its limit, else its container's; 0 if neither has one."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return quantity.in_units(volume.get("sizeLimit") or limits.get("memory", "0"), None)


def _write(place: Path, contents: Mapping[str, bytes], modes: Mapping[str, int | None], default: int) -> None:
    for path, data in contents.items():
        file = place / path
        if not file.resolve().is_relative_to(place.resolve()):
            raise ConfigError(f"{path} leads out of its volume")
        if file.is_file() and file.read_bytes() == data:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f".{file.name}.fresh")
        fresh.write_bytes(data)
        fresh.chmod(modes.get(path) or default)
        fresh.replace(file)
