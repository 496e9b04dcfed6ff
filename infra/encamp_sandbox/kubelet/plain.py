"""The fallback runtime: pods as plain processes that share this machine's network and files.

Where user namespaces are forbidden, and on macOS. Every pod gets a loopback port of its own in place of port 2222,
and in its environment and command the names of its peers and the paths of its mounts are replaced by what they are
here. What was replaced is noted on the pod. The metadata server and Google are reached by environment variables.
Programs with such addresses compiled in do not work here; ``doctor`` says so.
"""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError, SandboxError
from encamp.guard.listening import listen
from encamp.process import LiveProcess, ProcessSpec, start
from encamp_sandbox.kubelet.runtime import UNENFORCED, ContainerRequest, FuseVolume, PodRequest, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp_sandbox.kubelet.network_policy.rules import PodRules, Span
    from encamp_sandbox.layout import Layout

LOOPBACK = "127.0.0.1"
#: The port that replicas are told to listen on.
REPLICA_PORT = 2222
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class Plain:
    """Runs pods without isolation."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._ports: dict[str, socket.socket] = {}
        self._names: dict[str, int] = {}

    @property
    def listeners(self) -> Mapping[str, socket.socket]:
        """None: every pod has a metadata server of its own, since all have one address."""
        return {}

    async def open(self) -> None:
        """Prepare nothing: pods share nothing that would have to be made."""

    async def sandbox(self, request: PodRequest) -> PlainPod:
        """Return the pod's sandbox with a port of its own; the same again for the same host name."""
        return PlainPod(request, self)

    def port(self, host_key: str) -> int:
        """Return the port that stands for port 2222 of a host; chosen when it is first asked for.

        It is held by a bound socket that does not listen, so that no other program takes it; programs that set
        SO_REUSEADDR, as servers do, can still listen on it.
        """
        if host_key not in self._ports:
            held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(AttributeError):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind((LOOPBACK, 0))
            self._ports[host_key] = held
        return self._ports[host_key].getsockname()[1]

    def env(self, metadata_port: int) -> dict[str, str]:
        """Return variables that lead pods to the services of a node."""
        metadata = f"{LOOPBACK}:{metadata_port}"
        front = f"http://{LOOPBACK}:{self._layout.ports.front}"
        return {
            "GCE_METADATA_HOST": metadata,
            "GCE_METADATA_IP": metadata,
            "GCE_METADATA_ROOT": metadata,
            "STORAGE_EMULATOR_HOST": front,
            "PIP_PROXY": f"http://{LOOPBACK}:{self._layout.ports.proxy}",
        }

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as anybody here. Raises OSError."""
        return await asyncio.open_connection(address, port)

    def lead(self, ways: Mapping[str, Sequence[Span]]) -> None:
        """Do nothing: pods reach what this machine reaches."""

    @property
    def bundle(self) -> Path:
        """The certificates that pods trust."""
        return self._layout.bundle

    async def close(self) -> None:
        """Release the ports."""
        for held in self._ports.values():
            held.close()
        self._ports.clear()


class PlainPod:
    """A pod that shares everything."""

    def __init__(self, request: PodRequest, runtime: Plain) -> None:
        self._request = request
        self._runtime = runtime
        self.address = LOOPBACK
        runtime.port(request.host_key)
        home = request.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        self.metadata: socket.socket | None = listen(0)
        self.env: Mapping[str, str] = runtime.env(self.metadata.getsockname()[1]) | {
            "HOME": str(home),
            "TMPDIR": str(home),
        }

    @property
    def notes(self) -> Mapping[str, str]:
        """Notes on replaced ports and paths."""
        port = self._runtime.port(self._request.host_key)
        text = f"no namespaces on this machine: port {REPLICA_PORT} is {LOOPBACK}:{port}, mounts are rewritten"
        return {"sandbox.encamp.dev/rewritten": text, UNENFORCED: "not enforced: pods share this machine's network"}

    def set_hosts(self, entries: Sequence[tuple[str, str]]) -> None:
        """Do nothing: names are replaced when a container starts, by ports that are known before their pods are."""

    def set_rules(self, rules: PodRules) -> None:
        """Do nothing: no rules are enforced where all share one network; a note on the pod says so."""

    async def mount(self, volumes: Sequence[FuseVolume]) -> list[int]:
        """Refuse to mount: nothing can be mounted for one pod alone where all share one view of the files."""
        raise SandboxError(
            f"mounting {', '.join(one.source for one in volumes)} needs namespaces, which pods do not have here",
            hint="encamp sandbox doctor says what forbids it",
        )

    def unmount(self) -> None:
        """Do nothing: nothing was mounted."""

    async def run(self, request: ContainerRequest) -> LiveProcess:
        """Run the command with everything replaced."""
        paths = {mount["target"].rstrip("/"): mount["source"] for mount in request.mounts}
        log, log_path = request.termination_log
        paths |= {log_path: str(log), _CERTIFICATES: str(self._runtime.bundle)}
        cwd = Path(rewrite_paths(request.cwd, paths)) if request.cwd != "/" else self._request.folder / "home"
        spec = ProcessSpec(
            name=request.name,
            argv=tuple(self._rewrite(word, paths) for word in request.argv),
            env={name: self._rewrite(value, paths) for name, value in request.env.items()},
            cwd=cwd,
        )
        try:
            return await start(spec, output=request.output, errors=request.errors)
        except EncampError as error:
            raise StartError(str(error)) from error

    def _rewrite(self, text: str, paths: Mapping[str, str]) -> str:
        return rewrite_paths(rewrite_hosts(text, self._request.host_key, self._runtime.port), paths)

    async def close(self) -> None:
        """Close the metadata server; the pod's port stays with its host name, for the next pod of that name."""
        if self.metadata is not None:
            self.metadata.close()


def rewrite_hosts(text: str, host_key: str, port: Any) -> str:
    """Replace ``<host>.<subdomain>:2222`` of the pod's own headless service by loopback addresses.

    Args:
        text: a word of a command, or the value of a variable.
        host_key: ``<namespace>/<hostname>.<subdomain>`` of the pod.
        port: gives the port of a host by such a key.
    """
    namespace, _, name = host_key.partition("/")
    subdomain = name.partition(".")[2]
    if not subdomain:
        return text
    service = rf"{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
    pattern = rf"([a-z0-9][a-z0-9-]*)\.{service}:{REPLICA_PORT}\b"
    return re.sub(pattern, lambda found: f"{LOOPBACK}:{port(f'{namespace}/{found[1]}.{subdomain}')}", text)


def rewrite_paths(text: str, paths: Mapping[str, str]) -> str:
    """Replace mount paths where they stand as whole leading components of a path, the longest first."""
    for target in sorted(paths, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(target)}(?=$|[/:\s\"',;)\]])", lambda _found, t=target: paths[t], text)
    return text
