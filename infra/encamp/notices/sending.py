"""Sends messages: each in a process of its own, so that one slow service holds up nobody for longer than it may.

Apprise and its many plugins run in that process only. Its answer is one of a few fixed reasons: neither an address nor
what a service said can come back by it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How long all messages of one job may take together.
SECONDS = 20.0


@dataclass(frozen=True)
class Message:
    """One message; ``kind`` is a type of Apprise's: ``info``, ``success``, ``warning`` or ``failure``."""

    title: str
    body: str
    kind: str = "info"


@dataclass(frozen=True)
class Delivery:
    """Whether a service took a message; ``why`` not, in fixed words, empty if it did."""

    sent: bool
    why: str = ""


def send(addresses: Mapping[str, str], message: Message, *, seconds: float = SECONDS) -> dict[str, Delivery]:
    """Send a message to every address at once; what became of each within ``seconds``, by the addresses' names."""
    end = time.monotonic() + seconds
    running = {name: _begin(address, message, seconds) for name, address in addresses.items()}
    return {name: _result(process, end, seconds) for name, process in running.items()}


def _begin(address: str, message: Message, seconds: float) -> subprocess.Popen[str] | None:
    """Start the process that sends; None if this machine starts none."""
    try:
        process = subprocess.Popen(
            # Not in a shell's way: Ctrl-C for the command must not cut a message off.
            # -P: the working folder may be a job's, and its modules are not ours.
            [sys.executable, "-P", "-m", "encamp.notices.deliver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    except OSError:
        return None
    if process.stdin is not None:
        try:
            # By a pipe: whoever lists processes sees their arguments.
            json.dump({"address": address, "seconds": seconds, **asdict(message)}, process.stdin)
            process.stdin.close()
        except OSError:
            pass
    process.stdin = None
    return process


def _result(process: subprocess.Popen[str] | None, end: float, seconds: float) -> Delivery:
    if process is None:
        return Delivery(sent=False, why="no process could be started for it")
    try:
        answer, _ = process.communicate(timeout=max(0.0, end - time.monotonic()))
        told = json.loads(answer)
        return Delivery(sent=told["sent"] is True, why=str(told["why"]))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Delivery(sent=False, why=f"no answer within {seconds:g} s")
    except (ValueError, KeyError, TypeError):
        return Delivery(sent=False, why="the process that sends it died")
