"""A stand-in for the Pulumi CLI: the commands that encamp gives it, on a state of JSON files in ``$FAKE_ENGINE``.

``up`` takes what it "creates" from ``up.json``: ``resources`` (names), ``pending`` (names whose create never answers),
``kubeconfig`` (of the provider of Kubernetes),
``error``, ``failures`` (messages by the names of resources whose create fails), ``killed`` (it dies by SIGKILL and
leaves its lock) and ``hang`` (wait for SIGINT). With ``times`` that is so as often, and then as ``then`` says. It goes
on when there is no file ``up-held``.
``destroy.json`` likewise: ``keeps`` (names that stay), ``error``, ``times``; it goes on when there is no file ``held``,
and writes the provider's kubeconfig of that moment to ``reached``.
States that are files of ``backend`` and no JSON cannot be read, nor can then the stacks be listed.
``stack.json`` has an ``error`` of that many ``times`` for every command about stacks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(os.environ["FAKE_ENGINE"])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _read(name: str) -> dict[str, Any]:
    path = ROOT / name
    return json.loads(path.read_text()) if path.exists() else {}


def _write(name: str, data: dict[str, Any]) -> None:
    (ROOT / name).write_text(json.dumps(data))


#: Of a number on the wire each byte but the last.
_MORE = 128
_BUCKET = "gcp:storage/bucket:Bucket"
_STACK = "urn:pulumi:s::encamp::pulumi:pulumi:Stack::s"


def _resource(name: str) -> dict[str, Any]:
    """A bucket; one whose name begins with ``in-cluster`` is an object of the cluster."""
    kind = "kubernetes:core/v1:ConfigMap" if name.startswith("in-cluster") else "gcp:storage/bucket:Bucket"
    return {
        "urn": _urn(name, kind),
        "type": kind,
        "custom": True,
        "id": name,
        "created": "2026-01-01T00:00:00+00:00",
        "inputs": {"labels": {"encamp-deadline": "4000000000"}},
    }


def _provider(kubeconfig: str) -> dict[str, Any]:
    kind = "pulumi:providers:kubernetes"
    given = {"kubeconfig": kubeconfig, "clusterIdentifier": "c"}
    return {"urn": _urn("cluster", kind), "type": kind, "custom": True, "inputs": given, "outputs": given}


def _locked() -> int:
    sys.stderr.write(f"error: the stack is currently locked by 1 lock(s). {(ROOT / 'lock').read_text()}\n")
    return 255


def _urn(name: str, kind: str = "gcp:storage/bucket:Bucket") -> str:
    return f"urn:pulumi:s::encamp::{kind}::{name}"


def _fails(failures: dict[str, str], service: str) -> None:
    """Tell of creates that fail, as the engine tells it: over gRPC, each event a field of one message."""
    sys.path.append(os.environ["FAKE_ENGINE_PACKAGES"])
    import grpc  # noqa: PLC0415 - only here

    with grpc.insecure_channel(service.removeprefix("tcp://")) as channel:
        stream = channel.stream_unary("/pulumirpc.Events/StreamEvents")
        stream(iter([_message(json.dumps(event).encode()) for event in _told(failures)]), timeout=30)


def _told(failures: dict[str, str]) -> Iterator[dict[str, Any]]:
    for sequence, (name, message) in enumerate(failures.items()):
        about = {"type": _BUCKET, "urn": _urn(name)}
        new = {**about, "custom": True, "id": "", "parent": "", "inputs": {"name": name}, "outputs": {}}
        step = {**about, "op": "create", "old": None, "new": {**new, "provider": ""}, "provider": ""}
        said = {"urn": _urn(name), "message": message, "color": "never", "severity": "error"}
        for event in ({"resOpFailedEvent": {"metadata": step, "status": 1, "steps": 1}}, {"diagnosticEvent": said}):
            yield {"sequence": sequence, "timestamp": 1, **event}


def _message(text: bytes) -> bytes:
    """An ``EventRequest``: field 1, a text."""
    length, size = bytearray(), len(text)
    while size >= _MORE:
        length.append(size % _MORE + _MORE)
        size //= _MORE
    return b"\x0a" + bytes([*length, size]) + text


def _up(state: dict[str, Any], service: str) -> int:
    script = _read("up.json")
    if (ROOT / "lock").exists():
        return _locked()
    if "times" in script:
        if script["times"] == 0:
            script = script.get("then", {})
        else:
            _write("up.json", {**script, "times": script["times"] - 1})
    while (ROOT / "up-held").exists():
        time.sleep(0.01)
    state["resources"] = script.get("resources", ["bucket"])
    state["pending"] = script.get("pending", [])
    state["kubeconfig"] = script.get("kubeconfig", "")
    if script.get("failures"):
        _fails(script["failures"], service)
    if script.get("killed"):
        _write("stacks.json", {**_read("stacks.json"), "job-j": state})
        (ROOT / "lock").write_text(
            f"created by root@{socket.gethostname()} (pid {os.getpid()}) at 2026-01-01T00:00:00Z"
        )
        os.kill(os.getpid(), signal.SIGKILL)
    if script.get("hang"):
        stopped: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
        (ROOT / "hanging").touch()
        while not stopped:
            time.sleep(0.01)
        script["error"] = "update canceled"
    if script.get("error") or script.get("failures"):
        script.setdefault("error", "update failed")
        sys.stderr.write(f"error: {script['error']}\n")
        return 255
    state["outputs"] = script.get("outputs", {})
    return 0


def _destroy(state: dict[str, Any]) -> int:
    script = _read("destroy.json")
    if (ROOT / "lock").exists():
        return _locked()
    while (ROOT / "held").exists():
        time.sleep(0.01)
    if script.get("unreachable") and any(one.startswith("in-cluster") for one in state["resources"]):
        sys.stderr.write("error: the Kubernetes cluster is unreachable\n")
        return 255
    if script.get("times", 1) and script.get("error"):
        _write("destroy.json", {**script, "times": script.get("times", 1) - 1})
        sys.stderr.write(f"error: {script['error']}\n")
        return 255
    (ROOT / "reached").write_text(state.get("kubeconfig", ""))
    state["resources"] = script.get("keeps", [])
    state.pop("intent", None)
    return 0


def _unreadable(name: str = "*") -> str:
    """What is wrong with the first state, in a backend of files, that is there and no JSON."""
    for file in sorted((ROOT / "backend" / ".pulumi" / "stacks" / "encamp").glob(f"{name}.json")):
        try:
            json.loads(file.read_text())
        except ValueError:
            return "invalid character 'g' looking for beginning of value"
    return ""


def _missing(name: str, stacks: dict[str, Any]) -> bool:
    if name and name not in stacks:
        sys.stderr.write(f"error: no stack named '{name}' found\n")
        return True
    return False


def _stack(verb: str, name: str, rest: list[str], stacks: dict[str, Any]) -> int:
    script = _read("stack.json")
    if script.get("times"):
        _write("stack.json", {**script, "times": script["times"] - 1})
        sys.stderr.write(f"error: {script['error']}\n")
        return 255
    if verb == "ls" and (broken := _unreadable()):
        sys.stderr.write(f"error: place 1: {broken}\n")
        return 255
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
        component = {
            "urn": "urn:pulumi:s::encamp::encamp:components:TrainingJob::job",
            "type": "encamp:components:TrainingJob",
            "inputs": {"intent": stacks[name].get("intent", "")},
        }
        stack = {"urn": _STACK, "type": "pulumi:pulumi:Stack", "outputs": stacks[name]["outputs"]}
        deployment = {
            "manifest": {"time": stacks[name].get("written", "")},
            "resources": [
                stack,
                *([component] if stacks[name].get("intent") else []),
                *([_provider(stacks[name]["kubeconfig"])] if stacks[name].get("kubeconfig") else []),
                *(_resource(one) for one in stacks[name]["resources"]),
            ],
            "pending_operations": [
                {"type": "creating", "resource": {"urn": _urn(one), "inputs": {"name": one}}}
                for one in stacks[name]["pending"]
            ],
        }
        _say(json.dumps({"version": 3, "deployment": deployment}))
    elif verb == "import":
        return _import(stacks[name], Path(rest[rest.index("--file") + 1]))
    return 0


def _import(state: dict[str, Any], file: Path) -> int:
    if (ROOT / "lock").exists():
        return _locked()
    imported = json.loads(file.read_text())["deployment"]
    # As the engine does: whatever is pending in what is imported is dropped.
    state["pending"] = list[str]()
    listed = {one["urn"].rpartition("::")[2] for one in imported["resources"]}
    state["resources"] = [one for one in state["resources"] if one in listed]
    for one in imported["resources"]:
        if one["type"] == "pulumi:providers:kubernetes":
            if one["inputs"] != one["outputs"] or one["inputs"]["clusterIdentifier"] != "c":
                return 1
            state["kubeconfig"] = one["inputs"]["kubeconfig"]
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
    elif name and arguments[:2] != ["stack", "--show-name"] and (broken := _unreadable(name)):
        sys.stderr.write(f"error: failed to load checkpoint: place 1: {broken}\n")
        code = 255
    elif arguments[0] == "stack":
        code = _stack(arguments[1], name, arguments[2:], stacks)
    elif arguments[0] == "cancel":
        (ROOT / "lock").unlink()
        code = 0
    elif arguments[0] == "refresh":
        code = _locked() if (ROOT / "lock").exists() else 0
    else:
        code = (
            _up(stacks[name], arguments[arguments.index("--event-log") + 1])
            if arguments[0] == "up"
            else _destroy(stacks[name])
        )
    _write("stacks.json", stacks)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
