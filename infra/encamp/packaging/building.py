"""Builds a trainer that brings a build file of its own, in a copy of its folder and an environment of its own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import PlanError, UsageError
from encamp.packaging import archives
from encamp.packaging.cache import cached, keep
from encamp.packaging.declared import build_file
from encamp.packaging.files import read_source
from encamp.packaging.wheel import PACKAGE_PATH
from encamp.process import ProcessSpec, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.process import OutputLine, ProcessOutcome

#: Counts up when the same sources would be built into something else.
_RECIPE = 1
#: 1980-01-01, the first day that a zip can tell.
_EPOCH = "315532800"
_LAST_LINES = 15
_BUILD_SECONDS = 600
_LOOK_SECONDS = 0.2
#: Variables of the caller's environment that would change the build.
_NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "SETUPTOOLS_SCM_PRETEND_VERSION", "DISTUTILS_DEBUG")


def built(root: Path, package: Path) -> Path:
    """Return the archive of a project that holds ``package``: a pure wheel, else a source archive.

    A wheel with compiled parts would be of this machine's platform, which the replica's may not be.

    Raises:
        PlanError: the project does not hold the package, or is too large.
        UsageError: it cannot be built.
    """
    sources = read_source(root, package)
    key = _key(sources, package.name)
    found = cached(key)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory(prefix="encamp-build-") as folder:
        copy = Path(folder, "source")
        _write(copy, sources)
        made = _make(copy, Path(folder, "wheel"), "--wheel")
        pure = made.name.endswith("-none-any.whl")
        if not pure:
            made = _make(copy, Path(folder, "sdist"), "--sdist")
        _holds(made, package.name, build_file(root), sdist=not pure)
        content = made.read_bytes()
    normal = archives.normal_wheel(content) if pure else archives.normal_sdist(content)
    return keep(key, made.name, normal)


def _key(sources: Mapping[str, tuple[bytes, int]], package: str) -> str:
    digest = hashlib.sha256(repr((_RECIPE, sys.version_info[:2], package)).encode())
    for path, (content, mode) in sources.items():
        digest.update(repr((path, mode, hashlib.sha256(content).hexdigest())).encode())
    return digest.hexdigest()


def _write(folder: Path, sources: Mapping[str, tuple[bytes, int]]) -> None:
    for name, (content, mode) in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)


def _make(source: Path, target: Path, kind: str) -> Path:
    lines: deque[str] = deque(maxlen=_LAST_LINES)
    spec = ProcessSpec(
        name="build",
        argv=(sys.executable, "-m", "build", kind, "--outdir", str(target), str(source)),
        env=_environment(),
        cwd=source,
    )
    outcome = _outcome(spec, lines)
    made = sorted(target.glob("*")) if target.is_dir() else []
    if not outcome.ok or len(made) != 1:
        said = "".join(f"\n  | {line}" for line in lines)
        raise UsageError(
            f"packing the trainer failed: {outcome}; its last lines:{said}",
            where=PACKAGE_PATH,
            hint="run `python -m build` in the folder of the build file",
        )
    return made[0]


def _outcome(spec: ProcessSpec, lines: deque[str]) -> ProcessOutcome:
    """Run a build to its end; a Ctrl-C ends it and all that it started.

    The engine calls this inside an event loop of its own; a loop in a thread is nobody else's.
    """
    given_up = threading.Event()
    with ThreadPoolExecutor(1, "build") as pool:
        running = pool.submit(lambda: asyncio.run(_run(spec, lines, given_up)))
        try:
            return running.result()
        except BaseException:
            given_up.set()
            raise


async def _run(spec: ProcessSpec, lines: deque[str], given_up: threading.Event) -> ProcessOutcome:
    def note(line: OutputLine) -> None:
        if line.text.strip():
            lines.append(line.text.rstrip())

    process = await start(spec, output=note)
    ended = asyncio.ensure_future(process.wait())
    deadline = time.monotonic() + _BUILD_SECONDS
    while not ended.done():
        await asyncio.wait({ended}, timeout=_LOOK_SECONDS)
        if given_up.is_set() or time.monotonic() > deadline:
            lines.append(f"encamp: stopped after {_BUILD_SECONDS} s")
            return await process.stop()
    return ended.result()


def _environment() -> dict[str, str]:
    passed = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    return {**passed, "SOURCE_DATE_EPOCH": _EPOCH, "PYTHONHASHSEED": "0", "NO_COLOR": "1"}


def _holds(made: Path, package: str, file: Path | None, *, sdist: bool) -> None:
    """Refuse a build file that belongs to something else than the trainer beside it."""
    found = archives.top_level(archives.members(made), sdist=sdist)
    if package not in found:
        name = file.name if file is not None else "build file"
        raise PlanError(
            f"the {name} beside {package} does not pack it: {made.name} holds {', '.join(found) or 'no package'}",
            where=PACKAGE_PATH,
            hint=f"add {package} to its packages, or move {package} to a folder of its own",
        )
