"""``python -m encamp_sandbox.language_host [flags] ENGINE_ADDRESS``: the engine's language plugin.

Prints the port that it listens on as its first line, as every plugin does, and ends without a word on SIGINT, SIGTERM
or the end of its parent.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
import psutil

from encamp.guard.passage import Passage
from encamp_sandbox.language_host.parent import end_with_parent
from encamp_sandbox.language_host.servicer import Servicer
from encamp_sandbox.layout import ROOT_VARIABLE, Layout
from encamp_sandbox.provider.messages import language_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_BYTES: Final = 400 * 1024 * 1024
THREADS: Final = 8


def keep_bytecode() -> None:
    """Keep compiled modules in the sandbox's folder where the user's environment keeps none and has none.

    The cloud SDKs are tens of megabytes of source: with PYTHONDONTWRITEBYTECODE every run would compile them again,
    for seven seconds, unless whoever installed them did so.
    """
    root = os.environ.get(ROOT_VARIABLE)
    if root and sys.dont_write_bytecode and not Path(importlib.util.cache_from_source(grpc.__file__)).exists():
        sys.pycache_prefix = str(Path(root) / "data" / "pycache")
        sys.dont_write_bytecode = False


def own_folder() -> Path | None:
    """Return the folder for this process's unix socket, None outside a sandbox.

    Removes those of hosts that were killed.
    """
    root = os.environ.get(ROOT_VARIABLE)
    if not root:
        return None
    folder = Layout(Path(root)).socket_folder(f"host-{os.getpid()}")
    for old in folder.parent.glob("host-*"):
        if not psutil.pid_exists(int(old.name.removeprefix("host-"))):
            shutil.rmtree(old, ignore_errors=True)
    return folder if folder.parent.is_dir() else None


def pass_on(passage: Passage) -> None:
    """Accept connections of this user in a thread of its own."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(passage.start())
    threading.Thread(target=loop.run_forever, daemon=True).start()


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal; returns the exit code.

    Args:
        arguments: of the command line. Flags are for hosts that choose an interpreter, so they say nothing to this
            one; the last argument is the engine's address.
    """
    end_with_parent()
    keep_bytecode()
    # Printed lines are to reach the engine when they are printed.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    address = arguments[-1] if arguments and not arguments[-1].startswith("-") else ""
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_send_message_length", MESSAGE_BYTES),
    ]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Servicer(address), server)
    passage = Passage(folder=own_folder())
    server.add_insecure_port(passage.address)
    server.start()
    pass_on(passage)
    print(passage.port)  # noqa: T201  the plugin protocol
    threading.Thread(target=importlib.import_module, args=("pulumi",), daemon=True).start()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    passage.forget()
    sys.stdout.flush()
    sys.stderr.flush()
    # A program that is still running holds threads that nobody waits for any more.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
