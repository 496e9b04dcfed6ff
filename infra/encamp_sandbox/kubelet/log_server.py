"""The kubelet's API for the API server: logs of containers and running pods, over TLS with a client certificate.

Source of the paths: k8s.io/kubernetes/pkg/kubelet/server/server.go. Commands in containers (exec, attach, port-forward)
are refused in words: this kubelet does not offer them.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import TYPE_CHECKING

from encamp.guard.listening import listen
from encamp_sandbox.kubelet import logs
from encamp_sandbox.kubelet.server import Answer, Request, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp_sandbox.kubelet.pod import PodLife

_REFUSED = ("exec", "attach", "portForward", "run", "cri")


class LogServer:
    """Serves on loopback.

    Args:
        pods: gives the pods of this kubelet.
        pki: folder with ca.crt, kubelet.crt and kubelet.key.
    """

    def __init__(self, pods: Callable[[], list[PodLife]], pki: Path, host: str, port: int) -> None:
        self._pods = pods
        self._pki = pki
        self._host = host
        self._port = port

    async def start(self) -> asyncio.Server:
        """Listen. Raises OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pki / "kubelet.crt", self._pki / "kubelet.key")
        context.load_verify_locations(self._pki / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL  # /healthz is for everybody
        listener = listen(self._port, self._host)
        return await asyncio.start_server(partial(serve, self.answer), sock=listener, ssl=context)

    async def answer(self, request: Request) -> Answer:
        """Answer one request."""
        parts = request.path.strip("/").split("/")
        if parts == ["healthz"]:
            return Answer.text("ok")
        if request.certificate is None:
            return Answer.text("a client certificate of the sandbox is needed\n", 401)
        if parts[0] in _REFUSED:
            return Answer.text(f"the sandbox's kubelet does not offer {parts[0]}; only logs can be read\n", 501)
        if parts == ["pods"]:
            items = [life.pod for life in self._pods()]
            return Answer.json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
        if parts[0] == "containerLogs" and len(parts) == len(("containerLogs", "namespace", "pod", "container")):
            return self._logs(*parts[1:], request=request)
        return Answer.text("not found\n", 404)

    def _logs(self, namespace: str, name: str, container_name: str, *, request: Request) -> Answer:
        life = next((one for one in self._pods() if (one.namespace, one.name) == (namespace, name)), None)
        if life is None:
            return Answer.text(f'pod "{name}" not found in namespace "{namespace}"\n', 404)
        container = next((one for one in life.everyone if one.state.name == container_name), None)
        if container is None:
            return Answer.text(f"container {container_name} not found in pod {name}\n", 404)
        try:
            query = logs.LogQuery.from_parameters(dict(request.query))
        except ValueError as error:
            return Answer.text(f"{error}\n", 400)
        path = container.log_path(life.logs, previous=request.query.get("previous") == "true")
        if not path.exists():
            waits = container.state.state.get("waiting", {}).get("reason", "unknown")
            message = f'container "{container_name}" in pod "{name}" is waiting to start: {waits}\n'
            return Answer.text(message, 400)
        return Answer(body=logs.read(path, query, lambda: not container.writes(path)))
