"""Runs a Pulumi program in this process, as the official host's ``pulumi-language-python-exec`` does.

The program's folder is the working directory and the first entry of ``sys.path``. What a program prints goes to the
engine by way of standard output. A ``pulumi.RunError`` shows its message, any other exception its traceback.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PACKAGE: Final = "encamp"
THREADS_PER_OPERATION: Final = 4
"""Threads for calls to the engine per parallel resource operation, as the SDK's own server counts them."""


HOST_FILES: Final = (__file__, asyncio.base_events.__file__, "<frozen runpy>")
"""Files whose frames come before the program's own in a traceback."""


@dataclass(frozen=True)
class ProgramRun:
    """One run that the engine asks for; fields as in ``RunRequest`` and ``ProgramInfo``."""

    project: str
    stack: str
    organization: str
    root: str
    folder: str
    entry: str
    engine: str
    monitor: str
    parallel: int
    preview: bool
    args: Sequence[str] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    secret_keys: Sequence[str] = ()

    @property
    def path(self) -> str:
        """The program: a Python file, or a folder with a ``__main__.py``."""
        return str(Path(self.folder, self.entry or "."))


def run_program(run: ProgramRun) -> bool:
    """Run to the end; False when it failed, which the user has been told by then."""
    return contextvars.copy_context().run(_run, run)


def _run(run: ProgramRun) -> bool:
    import pulumi  # noqa: PLC0415  takes half a second, during which the engine can be answered already
    from pulumi import runtime  # noqa: PLC0415

    runtime.reset_options(
        project=run.project,
        stack=run.stack,
        root_directory=run.root,
        organization=run.organization or "organization",
        parallel=run.parallel,
        preview=run.preview,
        engine_address=run.engine,
        monitor_address=run.monitor,
    )
    runtime.set_all_config(dict(run.config), list(run.secret_keys))
    _enter(run)
    # Pulumi programs leave futures unobserved when they fail; the official host silences asyncio for it as well.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(max(run.parallel, 1) * THREADS_PER_OPERATION))
    try:
        loop.run_until_complete(runtime.run_in_stack(lambda: _execute(run.path)))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return False
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a program raises is its user's to read
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            _report(error)
            return False
    finally:
        _finish(loop)
    return True


def _enter(run: ProgramRun) -> None:
    program = Path(run.path)
    os.chdir(run.folder)
    sys.argv = [run.path, *run.args]
    folder = str(program if program.is_dir() else program.parent)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    # The program brings its own copy of everything under this package's name, also where it is another checkout.
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]


def _execute(path: str) -> None:
    runpy.run_path(path, run_name="__main__")


def _report(error: BaseException) -> None:
    import grpc  # noqa: PLC0415  loaded by pulumi long since
    import pulumi  # noqa: PLC0415

    code = error.code() if isinstance(error, grpc.Call) else None
    if code is grpc.StatusCode.UNAVAILABLE:
        # The engine has closed its monitor: it ends the run for a reason that it tells by itself.
        return
    frames = traceback.extract_tb(error.__traceback__)
    start = next((index + 1 for index in reversed(range(len(frames))) if frames[index].filename in HOST_FILES), 0)
    user = frames[start:]
    head = ["Traceback (most recent call last):\n", *traceback.format_list(user)] if user else []
    with suppress(grpc.RpcError):
        pulumi.log.error("".join([*head, *traceback.format_exception_only(error)]))


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.close()
    sys.stdout.flush()
    sys.stderr.flush()
