"""Builds the tools that are missing: one at a time, under a lock, into place at once.

Go uses every core by itself. A build that fails or is broken off leaves nothing but Go's own caches, so that
the next try goes on where this one ended.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp.process import OutputLine, ProcessSpec, start
from encamp_sandbox.tools.catalog import Tool, build_folder, cache_folder, installed, is_installed, missing
from encamp_sandbox.tools.manifests import write_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A terminal, and whoever watches a pipeline, hears something at least this often.
_TICK_SECONDS = 3.0
_LAST_LINES = 12
_BUILDING = ".building-"
_NEEDED_BYTES = 4 * 1024**3
#: Messages of go, and advice for the user: https://go.dev/doc/toolchain, https://go.dev/ref/mod#module-proxy.
_EXPLANATIONS = (
    ("requires go >=", "this Go is too old for {tool}", "install the Go that `go` in the message asks for"),
    ("toolchain not available", "this Go is too old for {tool}", "install the Go that the message asks for"),
    (
        "no space left on device",
        "the disk is full",
        "free a few GB, or move the caches by ENCAMP_CACHE_DIR and GOCACHE",
    ),
    ("dial tcp", "Go's modules cannot be reached", "check the network, or the proxy in `go env GOPROXY`"),
    ("i/o timeout", "Go's modules cannot be reached", "check the network, or the proxy in `go env GOPROXY`"),
    ("module lookup disabled", "Go may not download modules", "look at `go env GOPROXY GOFLAGS`"),
    ("checksum mismatch", "a module is not what go.sum says", "try `go clean -modcache`; if it stays, do not go on"),
    ("signal: killed", "the system ended the compiler, mostly for want of memory", "free memory, or set GOFLAGS=-p=1"),
)


@dataclass(frozen=True)
class BuildProgress:
    """A moment of a build.

    Attributes:
        tool: the tool's name.
        seconds: since its build began.
        text: what is going on, in plain words.
        done: whether this was the last word on this tool.
    """

    tool: str
    seconds: float
    text: str
    done: bool = False


def ensure(report: Callable[[BuildProgress], None]) -> dict[str, Path]:
    """Build what is missing and give every binary by name; with nothing missing no process is started.

    Raises:
        SandboxError: there is no Go, or a build failed; says why and what to try.
    """
    for tool in missing():
        ensure_one(tool, report)
    return installed()


def ensure_one(tool: Tool, report: Callable[[BuildProgress], None]) -> Path:
    """Build a tool if it is missing and give the folder of its binaries. Raises SandboxError as ``ensure`` does."""
    if not is_installed(tool):
        _check_machine()
        _build_one(tool, report)
    return build_folder(tool)


def _check_machine() -> None:
    if shutil.which("go") is None:
        raise SandboxError(
            "Go is not installed, and the sandbox's tools are built with it",
            hint="install Go 1.26 or newer from your system's packages and see that `go version` answers",
        )
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"the cache of tools cannot be made: {error.strerror}",
            where=str(folder),
            hint="choose another folder by ENCAMP_CACHE_DIR",
        ) from error
    if (free := shutil.disk_usage(folder).free) < _NEEDED_BYTES:
        raise SandboxError(
            f"{free / 1024**3:.1f} GB are free, a build of the tools needs {_NEEDED_BYTES / 1024**3:.0f}",
            where=str(folder),
            hint="free some, or move the caches by ENCAMP_CACHE_DIR, GOCACHE and GOMODCACHE",
        )


def _build_one(tool: Tool, report: Callable[[BuildProgress], None]) -> None:
    started = time.monotonic()

    def tell(text: str, *, done: bool = False) -> None:
        report(BuildProgress(tool.name, time.monotonic() - started, text, done))

    with _lock(tool, tell):
        if is_installed(tool):  # somebody else built it while we waited
            tell("built by another process", done=True)
            return
        folder = build_folder(tool)
        folder.parent.mkdir(parents=True, exist_ok=True)
        for broken_off in folder.parent.glob(f"{_BUILDING}*"):
            shutil.rmtree(broken_off, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=folder.parent))
        try:
            asyncio.run(_build(tool, temporary, tell))
            temporary.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)  # an incomplete one, else we would not be here
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    tell(f"{tool.version} built", done=True)


@contextmanager
def _lock(tool: Tool, tell: Callable[[str], None]) -> Iterator[None]:
    with (cache_folder() / f"{tool.name}.lock").open("w") as file:
        last = 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - last > _TICK_SECONDS:
                    tell("waiting for another process that builds it")
                    last = time.monotonic()
                time.sleep(0.2)
        yield


async def _build(tool: Tool, folder: Path, tell: Callable[[str], None]) -> None:
    tell(f"{tool.version}: reading its modules")
    names = list(tool.packages.values())
    output = folder / names[0] if len(names) == 1 else f"{folder}{os.sep}"
    if tool.packages:
        await _go(tool, ["build", "-v", *tool.build_flags, "-o", str(output), *tool.import_paths], tell)
    else:
        await _go(tool, ["mod", "download", tool.module], tell)
    if tool.manifests:
        lines = await _go(tool, ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", tool.module], tell)
        write_manifests([Path(lines[-1]) / part for part in tool.manifests], folder / "manifests.json")


async def _go(tool: Tool, arguments: list[str], tell: Callable[[str], None]) -> list[str]:
    """Run go in the tool's folder and give its output's last lines; says what goes on every few seconds."""
    lines: list[str] = []
    packages = 0

    def hear(line: OutputLine) -> None:
        nonlocal packages
        packages += line.ended and not line.text.startswith("go: ")
        lines.append(line.text)
        del lines[:-_LAST_LINES]

    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOOS": "", "GOARCH": ""}
    spec = ProcessSpec(f"go {arguments[0]}", ("go", *arguments), environment, cwd=tool.folder)
    process = await start(spec, output=hear)
    ended = asyncio.create_task(process.wait())
    try:
        while not (await asyncio.wait({ended}, timeout=_TICK_SECONDS))[0]:
            tell(_activity(lines, packages))
        outcome = await ended
    finally:
        if process.running:
            await process.stop(grace=2)
    if not outcome.ok:
        raise _explained(tool, lines)
    return lines


def _activity(lines: list[str], packages: int) -> str:
    last = lines[-1] if lines else ""
    if last.startswith("go: downloading "):
        return f"downloading {last.removeprefix('go: downloading ')}"
    return f"compiling, {packages} packages so far: {last}" if packages else "compiling"


def _explained(tool: Tool, lines: list[str]) -> SandboxError:
    text = "\n".join(lines)
    where = f"tools/{tool.name}"
    for sign, what, hint in _EXPLANATIONS:
        if sign in text:
            return SandboxError(f"{what.format(tool=tool.name)}. go said:\n{text}", where=where, hint=hint)
    return SandboxError(
        f"{tool.name} could not be built. go said:\n{text}",
        where=where,
        hint="encamp sandbox doctor, and the command again: what was compiled stays compiled",
    )
