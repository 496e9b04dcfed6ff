"""The buckets that one pod has mounted: one gcsfuse for each, in namespaces of the pod.

gcsfuse runs as a container of the pod that nobody sees: with the pod's address (by which the metadata server knows
whose token it asks for), hosts and certificates, unmodified. The kernel's side of each file system is mounted before
by the launcher, as GKE's node does it for its sidecar, and gcsfuse is given the open /dev/fuse.

Belief: fuse-runs-as-the-pod.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError
from encamp_sandbox.kubelet.environment import ConfigError
from encamp_sandbox.kubelet.gcsfuse import BucketVolume, bucket_volumes
from encamp_sandbox.kubelet.runtime import ContainerRequest, FuseVolume, StartError

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.process import LiveProcess, OutputLine
    from encamp_sandbox.kubelet.container import PodContext
    from encamp_sandbox.kubelet.on_demand import OnDemandTool

_LOG = logging.getLogger(__name__)
_MOUNTED = "File system has been successfully mounted"
_FAILED = "Error while mounting gcsfuse"
_WORTH_TELLING = re.compile("severity=(?:WARNING|ERROR)")
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 1.0, 30.0
_MOUNT_SECONDS = 60.0
#: After its last mount is gone gcsfuse ends by itself; this is for one that does not.
_END_SECONDS = 5.0
_LAST_LINES = 20
_BINARY, _OWN_FOLDER = "/gcsfuse/gcsfuse", "/gcsfuse/data"
#: Its identity on GKE; without the control API, which is gRPC alone, buckets count as ones without folders.
_FIXED = ("--foreground", "--app-name=gke-gcs-fuse-csi", "--log-format=text", "--enable-hns=false")


@dataclass
class _Server:
    """A gcsfuse that is to serve one volume."""

    volume: BucketVolume
    process: LiveProcess | None = None
    mounted: asyncio.Event = field(default_factory=asyncio.Event)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    ended: asyncio.Task[Any] | None = None

    def hear(self, line: OutputLine) -> None:
        """Take a line of its log."""
        self.lines.append(line.text)
        level = logging.INFO if _WORTH_TELLING.search(line.text) else logging.DEBUG
        _LOG.log(level, "gcsfuse of %s: %s", self.volume.name, line.text)
        if _MOUNTED in line.text:
            self.mounted.set()

    @property
    def reason(self) -> str:
        """Why it did not mount, in its own words."""
        said = [line for line in self.lines if _FAILED in line] or list(self.lines)[-1:] or ["gcsfuse said nothing"]
        return (said[-1].partition(_FAILED)[2] or said[-1]).lstrip(": ").removesuffix('"').removesuffix("\\n")


class PodBuckets:
    """The Cloud Storage mounts of a pod.

    Args:
        context: the pod's; its address is known to the metadata server, its volumes' places are in ``volumes``.
        tool: gcsfuse, built if need be.
    """

    def __init__(self, context: PodContext, tool: OnDemandTool) -> None:
        self._context = context
        self._volumes = bucket_volumes(context.pod())
        self._sandbox = context.sandbox
        self._folder = context.folder
        self._tool = tool
        self._servers: list[_Server] = []

    async def mount(self) -> bool:
        """Try until all are mounted; False when the pod is to stop before."""
        seconds = _FIRST_RETRY_SECONDS
        while self._volumes:
            stop = asyncio.create_task(self._context.stopping.wait())
            attempt = asyncio.create_task(self._mount())
            try:
                await asyncio.wait({attempt, stop}, return_when=asyncio.FIRST_COMPLETED)
                if stop.done():
                    return False
                await attempt
            except (ConfigError, EncampError, StartError) as error:
                self._context.note("FailedMount", f"MountVolume.SetUp failed: {_words(error)}", True)
                await asyncio.wait({stop}, timeout=seconds)
                seconds = min(seconds * 2, _LONGEST_RETRY_SECONDS)
            else:
                return True
            finally:
                for task in (attempt, stop):
                    task.cancel()
                await asyncio.wait({attempt, stop})
                _ = attempt.cancelled() or attempt.exception()  # asyncio complains of errors that nobody looked at
        return True

    async def close(self) -> None:
        """Unmount everything; what containers had closed or synced is in its bucket already."""
        self._sandbox.unmount()
        servers = list(self._servers)
        self._servers.clear()
        for server in servers:
            if server.ended is not None:
                server.ended.cancel()
        await asyncio.gather(*(_end(server.process) for server in servers if server.process))

    async def _mount(self) -> None:
        """Make one attempt to mount."""
        if not self._tool.ready:
            self._context.note(
                "Building", f"{self._tool.title} is built for this machine, once, in a minute or two", False
            )
        binary = await self._tool.folder() / "gcsfuse"
        places = [FuseVolume(self._folder / "volumes" / one.name, one.source, one.kernel) for one in self._volumes]
        devices = await self._sandbox.mount(places)
        try:
            try:
                for volume, device in zip(self._volumes, devices, strict=True):
                    self._servers.append(server := _Server(volume))
                    server.process = await self._sandbox.run(self._request(server, binary, device))
            finally:
                for device in devices:  # else a gcsfuse that died would leave its readers waiting for ever
                    os.close(device)
            await asyncio.gather(*(_until_mounted(server) for server in self._servers))
        except BaseException:
            await self.close()
            raise
        for server in self._servers:
            server.ended = asyncio.create_task(self._tell_end(server))

    def _request(self, server: _Server, binary: Path, device: int) -> ContainerRequest:
        volume = server.volume
        own = self._folder / "gcsfuse" / volume.name
        (own / "cache").mkdir(parents=True, exist_ok=True)
        (own / "config.yaml").write_text(json.dumps(volume.config), encoding="utf-8")  # JSON is YAML
        log = own / "termination"
        log.touch()
        cached = (volume.config.get("file-cache") or {}).get("max-size-mb")
        return ContainerRequest(
            name=f"gcsfuse-{volume.name}",
            argv=(
                _BINARY,
                *_FIXED,
                f"--disable-list-access-check={str(not volume.checked).lower()}",
                *volume.flags,
                f"--temp-dir={_OWN_FOLDER}/cache",
                *([f"--cache-dir={_OWN_FOLDER}/cache"] if cached else []),
                *([f"--config-file={_OWN_FOLDER}/config.yaml"] if volume.config else []),
                volume.bucket,
                f"/dev/fd/{device}",
            ),
            env={"PATH": "/usr/bin:/bin", **self._context.base_env},
            cwd="/",
            mounts=[
                {"source": str(binary), "target": _BINARY, "read_only": True},
                {"source": str(own), "target": _OWN_FOLDER, "read_only": False},
            ],
            termination_log=(log, "/dev/termination-log"),
            output=server.hear,
            errors=server.hear,
            serves=device,
        )

    async def _tell_end(self, server: _Server) -> None:
        """Report a gcsfuse that ends while its pod still runs: readers then get ENOTCONN."""
        if server.process is not None:
            outcome = await server.process.wait()
            message = f"volume {server.volume.name} is lost: gcsfuse ended ({outcome}): {server.reason}"
            self._context.note("FailedMount", message, True)


async def _until_mounted(server: _Server) -> None:
    """Wait until it serves. Raises ConfigError with its words when it ends instead, or takes too long."""
    name, process = server.volume.name, server.process
    if process is None:
        return
    ended = asyncio.create_task(process.wait())
    mounted = asyncio.create_task(server.mounted.wait())
    try:
        await asyncio.wait({ended, mounted}, timeout=_MOUNT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not mounted.done():
            late = "" if ended.done() else f" within {_MOUNT_SECONDS:.0f} s"
            raise ConfigError(f'volume "{name}": bucket {server.volume.bucket} is not mounted{late}: {server.reason}')
    finally:
        for task in (ended, mounted):
            task.cancel()


def _words(error: Exception) -> str:
    """Return an error in one line, with what to try."""
    return f"{error.what}; {error.hint}" if isinstance(error, EncampError) and error.hint else str(error)


async def _end(process: LiveProcess) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.shield(process.wait())
    await process.stop(0)
