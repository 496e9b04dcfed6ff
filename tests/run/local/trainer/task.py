"""Does what its arguments say: ``worker=print:hello,exit:3`` for all workers, ``worker1=...`` for one of them.

Before that it leaves a note ``<type>-<index>`` in the folder, with its process id. What is told nothing waits.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = json.loads(os.environ["TF_CONFIG"])
TASK = CONFIG["task"].get("type", "chief")
INDEX = CONFIG["task"].get("index", 0)
LISTENING: list[socket.socket] = []


def note(name: str, text: str = "") -> None:
    """A file that is whole as soon as it is there."""
    Path(f".{name}.{os.getpid()}").write_text(text)
    Path(f".{name}.{os.getpid()}").rename(name)


def wait(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.01)


def family(text: str) -> None:
    """A child, and a grandchild that has left the session and its parent; both ignore SIGTERM."""
    for away in (False, True):
        if os.fork() == 0:
            if away:
                os.setsid()
                if os.fork():
                    os._exit(0)
            ignore()
            note(f"{TASK}-{INDEX}-{'grandchild' if away else 'child'}", str(os.getpid()))
            time.sleep(600)
    wait(f"{TASK}-{INDEX}-child")
    wait(f"{TASK}-{INDEX}-grandchild")


def listen(text: str) -> None:
    """Listen where the cluster says, on all addresses, as TensorFlow's server does; greet whoever comes."""
    port = int(CONFIG["cluster"][TASK][INDEX].rpartition(":")[2])
    LISTENING.append(socket.create_server(("", port)))
    note(f"{TASK}-{INDEX}-port", str(port))


def greet(text: str) -> None:
    """Reach every member of the cluster, as the one that it is."""
    for kind, places in CONFIG["cluster"].items():
        for index, place in enumerate(places):
            wait(f"{kind}-{index}-port")
            host, _, port = place.rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()


def steps(text: str) -> None:
    """Train so many steps, a checkpoint after each; killed in the middle of the first try."""
    checkpoint = Path(sys.argv[sys.argv.index("--job-dir") + 1]) / "checkpoint"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    print(f"begins at step {done}", flush=True)
    for step in range(done + 1, int(text) + 1):
        checkpoint.write_text(str(step))
        if done == 0 and step == int(text) // 2:
            os.kill(os.getpid(), signal.SIGKILL)


def once(text: str) -> None:
    """At the first time that this replica comes here, die by a signal."""
    if not Path(f"{TASK}-{INDEX}-died").exists():
        note(f"{TASK}-{INDEX}-died", os.environ["TF_CONFIG"])
        os.kill(os.getpid(), int(text))
    note(f"{TASK}-{INDEX}-again", os.environ["TF_CONFIG"])


def burn(text: str) -> None:
    """Use so many MiB, and a quarter of a second of CPU."""
    held = bytearray(os.urandom(1 << 20)) * int(text)
    while time.process_time() < 0.25:
        held[0] = (held[0] + 1) % 256


def sleep(seconds: str) -> None:
    time.sleep(float(seconds))


def say(text: str) -> None:
    print(text, flush=True)


def write(text: str) -> None:
    os.write(1, bytes.fromhex(text))


def leave(code: str) -> None:
    sys.exit(int(code))


def die(number: str) -> None:
    os.kill(os.getpid(), int(number))


def ignore(text: str = "") -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


ACTS: dict[str, Callable[[str], None]] = {
    "print": say,
    "write": write,
    "exit": leave,
    "kill": die,
    "sleep": sleep,
    "ignore": ignore,
    "family": family,
    "note": note,
    "await": wait,
    "listen": listen,
    "greet": greet,
    "steps": steps,
    "once": once,
    "burn": burn,
}

told = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
acts = told.get(f"{TASK}{INDEX}", told.get(TASK, "sleep:600"))
if "ignore" in acts:
    ignore()
note(f"{TASK}-{INDEX}", str(os.getpid()))
for act in acts.split(","):
    name, _, text = act.partition(":")
    ACTS[name](text)
