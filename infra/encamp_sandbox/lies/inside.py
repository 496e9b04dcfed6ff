"""Lies about a pod's view: the metadata server, the names of its peers, its devices.

The kubelet tells them itself; it finds in the file of the switches which are on.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.lies.model import Lie

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ROOT: Final = "/computeMetadata/v1/"
_PEERS, _GPUS = "pod-finds-its-peers", "pod-sees-its-gpus"
_HEADER: Final = "metadata-wants-its-header"
_GPU: Final = "nvidia.com/gpu"
_OK: Final = 200


def _far(text: str) -> str:
    token: dict[str, Any] = json.loads(text)
    return json.dumps({**token, "expires_in": 86_400})


#: Changed answers of the metadata server, by belief: the path, and the change of its text.
_ANSWERS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "metadata-says-who-the-pod-is": (
        f"{_ROOT}instance/service-accounts/default/email",
        lambda _: "12345-compute@developer.gserviceaccount.com",
    ),
    "metadata-gives-tokens": (f"{_ROOT}instance/service-accounts/default/token", _far),
    "metadata-names-the-cluster": (f"{_ROOT}instance/attributes/cluster-name", lambda _: "another"),
    "metadata-names-the-zone": (f"{_ROOT}instance/zone", lambda text: text.rpartition("/")[2]),
    "metadata-names-the-project": (f"{_ROOT}project/project-id", lambda _: "another"),
}

LIES: Final = (
    Lie(_HEADER, "The metadata server needs no header."),
    *(Lie(belief, f"The metadata server says something else of {path}.") for belief, (path, _) in _ANSWERS.items()),
    Lie(_PEERS, "Pods do not find each other by name."),
    Lie(_GPUS, "Two GPUs are there instead of one."),
)


class InsideLies:
    """The lies that the kubelet tells.

    Args:
        switches: file with the beliefs whose lies are told; nothing is told without it.
    """

    def __init__(self, switches: Path) -> None:
        self._switches = switches

    def _on(self) -> frozenset[str]:
        return frozenset(json.loads(self._switches.read_text())) if self._switches.exists() else frozenset()

    def pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Return a pod as the kubelet is to see it."""
        on = self._on() & {_PEERS, _GPUS}
        if not on:
            return pod
        shown = copy.deepcopy(pod)
        if _PEERS in on:
            shown["spec"].pop("subdomain", None)
        for container in shown["spec"]["containers"] if _GPUS in on else ():
            limits = (container.get("resources") or {}).get("limits") or {}
            if _GPU in limits:
                limits[_GPU] = str(2 * int(limits[_GPU]))
        return shown

    def needs_header(self) -> bool:
        """Whether the metadata server asks for its header."""
        return _HEADER not in self._on()

    def text(self, path: str, status: int, text: bytes) -> bytes:
        """Return the metadata server's answer at a path in place of ``text``."""
        for belief in self._on() if status == _OK else ():
            where, change = _ANSWERS.get(belief, ("", str))
            if where == path:
                return change(text.decode()).encode()
        return text
