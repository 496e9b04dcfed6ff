"""A stand-in for the Pulumi CLI: the commands that encamp gives it, on a state of JSON files in ``$FAKE_ENGINE``.

``up`` takes what it "creates" from ``up.json``: ``resources`` (names), ``pending`` (names whose create never answers),
``error``, and ``hang`` (wait for SIGINT). ``destroy.json`` likewise: ``keeps`` (names that stay), ``error``, ``times``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["FAKE_ENGINE"])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _read(name: str) -> dict[str, Any]:
    path = ROOT / name
    return json.loads(path.read_text()) if path.exists() else {}


def _write(name: str, data: dict[str, Any]) -> None:
    (ROOT / name).write_text(json.dumps(data))


def _urn(name: str) -> str:
    return f"urn:pulumi:s::encamp::gcp:storage/bucket:Bucket::{name}"


def _up(state: dict[str, Any]) -> int:
    script = _read("up.json")
    state["resources"] = script.get("resources", ["bucket"])
    state["pending"] = script.get("pending", [])
    if script.get("hang"):
        stopped: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
        (ROOT / "hanging").touch()
        while not stopped:
            time.sleep(0.01)
        script["error"] = "update cancelled"
    if script.get("error"):
        sys.stderr.write(f"error: {script['error']}\n")
        return 255
    state["outputs"] = script.get("outputs", {})
    return 0


def _destroy(state: dict[str, Any]) -> int:
    script = _read("destroy.json")
    lock = ROOT / "lock"
    if lock.exists():
        sys.stderr.write(f"error: the stack is currently locked by 1 lock(s). {lock.read_text()}\n")
        return 255
    if script.get("times", 1) and script.get("error"):
        _write("destroy.json", {**script, "times": script.get("times", 1) - 1})
        sys.stderr.write(f"error: {script['error']}\n")
        return 255
    state["resources"] = script.get("keeps", [])
    return 0


def _missing(name: str, stacks: dict[str, Any]) -> bool:
    if name and name not in stacks:
        sys.stderr.write(f"error: no stack named '{name}' found\n")
        return True
    return False


def _stack(verb: str, name: str, rest: list[str], stacks: dict[str, Any]) -> int:
    if verb == "ls":
        _say(json.dumps([{"name": one, "current": False} for one in stacks]))
    elif verb == "init":
        stacks[rest[0]] = {"resources": [], "pending": [], "outputs": {}}
    elif verb == "rm":
        del stacks[rest[-1]]
    elif verb == "output":
        _say(json.dumps(stacks[name]["outputs"]))
    elif verb == "history":
        summary: dict[str, Any] = {
            "kind": "update",
            "startTime": "2026-01-01T00:00:00.000Z",
            "message": "",
            "environment": None,
        }
        _say(json.dumps([{**summary, "config": {}, "result": "succeeded"}]))
    elif verb == "export":
        deployment = {
            "resources": [
                {
                    "urn": _urn(one),
                    "type": "gcp:storage/bucket:Bucket",
                    "custom": True,
                    "id": one,
                    "created": "2026-01-01T00:00:00+00:00",
                }
                for one in stacks[name]["resources"]
            ],
            "pending_operations": [
                {"type": "creating", "resource": {"urn": _urn(one)}} for one in stacks[name]["pending"]
            ],
        }
        _say(json.dumps({"version": 3, "deployment": deployment}))
    elif verb == "import":
        imported = json.loads(Path(rest[rest.index("--file") + 1]).read_text())
        stacks[name]["pending"] = imported["deployment"]["pending_operations"]
    return 0


def main(arguments: list[str]) -> int:
    if arguments == ["version"]:
        _say("v3.259.0")
        return 0
    arguments = [one for one in arguments if one != "--non-interactive"]
    with (ROOT / "calls").open("a") as calls:
        calls.write(f"{os.getpid()} {os.getsid(0)} {' '.join(arguments)}\n")
    stacks = _read("stacks.json")
    name = arguments[arguments.index("--stack") + 1] if "--stack" in arguments else ""
    if _missing(name, stacks):
        code = 255
    elif arguments[0] == "stack":
        code = _stack(arguments[1], name, arguments[2:], stacks)
    elif arguments[0] == "cancel":
        (ROOT / "lock").unlink()
        code = 0
    else:
        code = {"up": _up, "destroy": _destroy}[arguments[0]](stacks[name])
    _write("stacks.json", stacks)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
