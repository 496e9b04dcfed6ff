"""The runtime of choice on Linux: every pod in namespaces of its own, made by ``launcher``, as any user.

All pods hang on one network namespace with a bridge, a gateway and the metadata server's address. It is reached
from nowhere else: the gateway's listening sockets are made inside it and served by the kubelet outside.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import secrets
import shutil
import socket
import sys
from typing import TYPE_CHECKING, Any

from encamp.errors import SandboxError
from encamp.process import LiveProcess, OutputLine, ProcessSpec, start
from encamp.resources import PACKAGE
from encamp_sandbox.kubelet.addresses import AddressBook
from encamp_sandbox.kubelet.fuse import look_for_fuse
from encamp_sandbox.kubelet.network_policy.filters import DirectWays, Node, PodFilter
from encamp_sandbox.kubelet.runtime import (
    UNENFORCED,
    ContainerRequest,
    FuseVolume,
    HostNames,
    PodRequest,
    StartError,
)
from encamp_sandbox.ports import API_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from encamp_sandbox.kubelet.host_view import HostView
    from encamp_sandbox.kubelet.network_policy.rules import PodRules, Span

NETWORK = "10.8.0.0/16"
METADATA = "169.254.169.254"
#: Addresses of Google's hosts: private.googleapis.com, so that rules judge them as they do on Google Cloud.
#: Belief: googles-apis-have-public-addresses.
GOOGLE = "199.36.153.8"
_MOST_FILES = 64
_TLS_PORT, _PROXY_PORT, _DIRECT_PORT, _METADATA_PORT = 443, 3128, 3129, 80
_LAUNCHER = "encamp_sandbox.kubelet.launcher"


class Namespaces:
    """Runs pods in namespaces.

    Args:
        folder: of the runtime's own.
        view: what pods see of the host.
        bundle: the CA certificates that pods trust.
        unenforced: why this kernel filters no packets of pods; empty if it does.
    """

    def __init__(self, folder: Path, view: HostView, bundle: Path, unenforced: str = "") -> None:
        self.unenforced = unenforced
        self._direct: DirectWays | None = None
        self._folder = folder
        self._view = view
        self._bundle = bundle
        self._addresses = AddressBook(NETWORK)
        self._listeners: dict[str, socket.socket] = {}
        self._user = self._net = -1
        #: The launcher's input is in one file.
        self._dialling = asyncio.Lock()

    @property
    def listeners(self) -> Mapping[str, socket.socket]:
        """The gateway's sockets and the metadata server's."""
        return self._listeners

    @property
    def gateway(self) -> str:
        """The address by which pods reach us."""
        return self._addresses.gateway

    async def open(self) -> None:
        """Make the pods' network."""
        gateway = self._addresses.gateway
        places = {
            "tls": (GOOGLE, _TLS_PORT),
            "proxy": (gateway, _PROXY_PORT),
            "direct": (gateway, _DIRECT_PORT),
            "metadata": (METADATA, _METADATA_PORT),
            "apiserver": (API_ADDRESS, _TLS_PORT),
        }
        files = await self.ask(
            "node",
            self._folder,
            {
                "gateway": gateway,
                "prefix_length": self._addresses.prefix_length,
                "further": [METADATA, API_ADDRESS, GOOGLE],
                "listen": list(places.values()),
            },
        )
        self._user, self._net, packet_filter, *servers = files
        self._direct = DirectWays(socket.socket(fileno=packet_filter), _DIRECT_PORT)
        for name, descriptor in zip(places, servers, strict=True):
            self._listeners[name] = socket.socket(fileno=descriptor)

    async def sandbox(self, request: PodRequest) -> NamespacedPod:
        """Make the namespaces of a pod."""
        address = self._addresses.take(request.host_key)
        task = {
            "user": self._user,
            "net": self._net,
            "hostname": request.hostname,
            "interface": f"veth{secrets.token_hex(4)}",
            "address": address,
            "prefix_length": self._addresses.prefix_length,
            "gateway": self._addresses.gateway,
        }
        try:
            files = await self.ask("pod", request.folder, task, (self._user, self._net))
        except BaseException:
            self._addresses.give_back(address)
            raise
        return NamespacedPod(request, address, files, self)

    def lead(self, ways: Mapping[str, Sequence[Span]]) -> None:
        """Configure the node's packet filter for the routes. Raises SandboxError."""
        if self._direct is None or self.unenforced:
            return
        try:
            self._direct.keep(ways)
        except OSError as error:
            raise SandboxError(f"pods reach no network directly: {error}") from error

    def node(self) -> Node:
        """Return the addresses that are open to every pod."""
        return Node(self._addresses.gateway, _PROXY_PORT)

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a pod in its network, to anything else from here. Raises OSError and SandboxError."""
        if address not in self._addresses:
            return await asyncio.open_connection(address, port)
        task = {"user": self._user, "net": self._net, "address": address, "port": port}
        async with self._dialling:
            (connection,) = await self.ask("connect", self._folder, task, (self._user, self._net))
        return await asyncio.open_connection(sock=socket.socket(fileno=connection))

    async def close(self) -> None:
        """Drop the network; it is gone when the last pod is."""
        for listener in self._listeners.values():
            listener.close()
        if self._direct is not None:
            self._direct.close()
        for descriptor in (self._user, self._net):
            if descriptor >= 0:
                os.close(descriptor)
        self._listeners.clear()
        self._user = self._net = -1

    def give_back(self, address: str) -> None:
        """Free a pod's address."""
        self._addresses.give_back(address)

    def root(self, folder: Path) -> dict[str, Any]:
        """Return the part of a container's root filesystem that is the same for all."""
        return {
            "folder": str(folder / "root"),
            "etc": str(folder / "etc"),
            "hidden": list(self._view.hidden),
            "kept": list(self._view.shown),
        }

    def prepare(self, request: PodRequest) -> None:
        """Write the pod's own files of /etc."""
        etc = request.folder / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        (request.folder / "root").mkdir(exist_ok=True)
        (etc / "hostname").write_text(f"{request.hostname}\n")
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        if self._bundle.exists():
            shutil.copyfile(self._bundle, etc / "ca-certificates.crt")

    async def ask(self, verb: str, folder: Path, task: dict[str, Any], files: tuple[int, ...] = ()) -> list[int]:
        """Run a verb of the launcher that hands over files. Raises SandboxError."""
        ours, theirs = socket.socketpair()
        errors: list[OutputLine] = []
        with ours:
            with theirs:
                task["channel"] = theirs.fileno()
                spec = launcher(verb, folder / f"{verb}.json", task, (theirs.fileno(), *files))
                process = await start(spec, output=errors.append)
            outcome = await process.wait()
            if not outcome.ok:
                message = " ".join(line.text for line in errors) or str(outcome)
                raise SandboxError(f"the namespaces of a {verb} cannot be made: {message}")
            return _received(ours)


class NamespacedPod:
    """The namespaces of one pod, kept by open files: they are gone when the kubelet is."""

    def __init__(self, request: PodRequest, address: str, files: list[int], runtime: Namespaces) -> None:
        self._request = request
        self._runtime = runtime
        *namespaces, packet_filter = files
        self._files = dict(zip(("user", "net", "uts", "ipc"), namespaces, strict=True))
        self._filter = PodFilter(socket.socket(fileno=packet_filter), runtime.node())
        self.address = address
        self.notes: Mapping[str, str] = {UNENFORCED: runtime.unenforced} if runtime.unenforced else {}
        self.metadata: socket.socket | None = None
        self.env: Mapping[str, str] = {"PIP_PROXY": f"http://{runtime.gateway}:{_PROXY_PORT}", "HOME": "/tmp/home"}  # noqa: S108 - of the container
        runtime.prepare(request)

    def set_hosts(self, entries: Sequence[tuple[str, str]]) -> None:
        """Replace /etc/hosts at once; ``entries`` are addresses and their names."""
        names = HostNames(GOOGLE, METADATA)
        own = [("127.0.0.1", "localhost"), ("::1", "localhost ip6-localhost"), (self.address, self._request.hostname)]
        text = "".join(f"{address}\t{name}\n" for address, name in [*own, *entries, *names.lines()])
        file = self._request.folder / "etc" / "hosts"
        fresh = file.with_name(".hosts")
        fresh.write_text(text)
        fresh.replace(file)

    def set_rules(self, rules: PodRules) -> None:
        """Replace them in the pod's kernel. Raises SandboxError."""
        if self._runtime.unenforced:
            return
        try:
            self._filter.keep(rules)
        except OSError as error:
            message = f"the network policies of {self._request.hostname} cannot be enforced: {error}"
            raise SandboxError(message, hint="encamp sandbox doctor says what this machine lacks") from error

    async def mount(self, volumes: Sequence[FuseVolume]) -> list[int]:
        """Mount in a mount namespace of the pod's, from which its containers' are made."""
        if problem := look_for_fuse():
            raise SandboxError(problem.text, hint=problem.remedy)
        places = [{"source": one.source, "target": str(one.place), "flags": one.flags} for one in volumes]
        user = self._files["user"]
        task = {"user": user, "places": places}
        self._files["mnt"], *devices = await self._runtime.ask("mounts", self._request.folder, task, (user,))
        return devices

    def unmount(self) -> None:
        """Release the mount namespace."""
        if (mounts := self._files.pop("mnt", None)) is not None:
            os.close(mounts)

    async def run(self, request: ContainerRequest) -> LiveProcess:
        """Run a container in the pod's namespaces and a root of its own."""
        files = dict(self._files)
        if request.serves is not None:
            files.pop("mnt")  # else its file system would never be free of its own server
            files["serves"] = request.serves
        status, status_end = os.pipe()
        log, log_path = request.termination_log
        mounts = [*request.mounts, {"source": str(log), "target": log_path, "read_only": False}]
        task = {
            **files,
            "status": status_end,
            "root": self._runtime.root(self._request.folder) | {"mounts": mounts},
            "argv": list(request.argv),
            "env": dict(request.env),
            "cwd": request.cwd,
        }
        file = self._request.folder / f"{request.name}.json"
        try:
            spec = launcher("container", file, task, (status_end, *files.values()))
            process = await start(spec, output=request.output, errors=request.errors)
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(status_end)
        if message := await _read_to_end(status):
            await process.wait()
            raise StartError(message)
        return process

    async def close(self) -> None:
        """Release the namespaces."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}
        self._filter.close()
        self._runtime.give_back(self.address)


def launcher(verb: str, file: Path, task: dict[str, Any], files: tuple[int, ...]) -> ProcessSpec:
    """Return the launcher's process for a verb.

    ``file`` is written for its owner alone, since it holds an environment.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(task, stream)
    return ProcessSpec(
        name=f"launcher {verb}",
        argv=(sys.executable, "-S", "-m", _LAUNCHER, verb, str(file)),
        env={"PYTHONPATH": str(PACKAGE.parent)},
        pass_fds=files,
    )


async def _read_to_end(descriptor: int) -> str:
    """Return what is written to a pipe until its last writer is gone."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb", 0))
    return (await reader.read()).decode("utf-8", "replace")


def _received(channel: socket.socket) -> list[int]:
    size = array.array("i").itemsize
    _, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(_MOST_FILES * size), socket.MSG_CMSG_CLOEXEC)
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data[: len(data) - len(data) % size])
    return list(files)
