"""The life of a pod on its node, from the moment that the scheduler bound it to the moment that it is gone."""

from __future__ import annotations

import asyncio
import logging
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx

from encamp.errors import EncampError
from encamp.process import OutputLine
from encamp_sandbox.kubelet import images, status
from encamp_sandbox.kubelet.api import is_refused
from encamp_sandbox.kubelet.buckets import PodBuckets
from encamp_sandbox.kubelet.container import Container, PodContext
from encamp_sandbox.kubelet.environment import ConfigError
from encamp_sandbox.kubelet.logs import LogFile, Notices
from encamp_sandbox.kubelet.runtime import PodRequest, PodSandbox
from encamp_sandbox.kubelet.times import now, parse, stamp
from encamp_sandbox.kubelet.volumes import Volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubelet.services import Services

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS, _DEFAULT_GRACE_SECONDS, _LOST = 1.0, 30, 137
_LOST_MESSAGE = "The container could not be located when the kubelet was restarted: it ended with the kubelet"
NOTES_PREFIX = "sandbox.encamp.dev/"  # Annotations of ours begin with it.
_UNSTARTED_MESSAGE = "The container was never started"
#: Reason and message of a pod whose machine goes away: k8s.io/kubernetes/pkg/kubelet/nodeshutdown.
_SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
#: Belief: node-shutdown-is-a-disruption.
_SHUTDOWN_CONDITION = "TerminationByKubelet"


class PodLife:
    """Runs one pod.

    Args:
        pod: as the API server gave it first; ``update`` gives it again.
        services: what all pods share.
    """

    def __init__(self, pod: dict[str, Any], services: Services) -> None:
        metadata = pod["metadata"]
        self.pod = pod
        self.uid: str = metadata["uid"]
        self.namespace: str = metadata["namespace"]
        self.name: str = metadata["name"]
        self.folder = services.pods_folder / f"{self.namespace}_{self.name}_{self.uid}"
        self.logs = self.folder / "logs"
        self.inits = [Container(one, init=True) for one in pod["spec"].get("initContainers") or []]
        self.containers = [Container(one, init=False) for one in pod["spec"]["containers"]]
        self.address = ""
        self._services = services
        self.notices = Notices(lambda: self.everyone)
        self._stopping = asyncio.Event()
        self._deleting = asyncio.Event()
        self._changed = asyncio.Event()
        self._stop_at = float("inf")
        self._failure: tuple[str, str] | None = None
        self._disrupted: dict[str, Any] | None = None
        self._started = now()
        self._terminal = self._gone = False
        self._sent: dict[str, Any] = {}
        self._task = asyncio.create_task(self._run(), name=f"pod {self.namespace}/{self.name}")

    @property
    def path(self) -> str:
        """The pod's path in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def everyone(self) -> list[Container]:
        """Init containers and containers."""
        return [*self.inits, *self.containers]

    @property
    def terminal(self) -> bool:
        """Whether all of its containers have ended for good."""
        return self._terminal

    @property
    def reported(self) -> bool:
        """Whether it has ended for good and the API server was told how, or has forgotten it."""
        return self._gone or (self._terminal and self._sent == self._status())

    def update(self, pod: dict[str, Any]) -> None:
        """Take the pod as the API server has it now; a deletion is begun or hastened."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._stop(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
            self._deleting.set()

    def fail(self, reason: str, message: str) -> None:
        """Stop the pod within its grace period; it has failed for this reason, whatever its containers say."""
        if self._failure is None and not self._stopping.is_set():
            self._failure = (reason, message)
            self._services.note(self.pod, reason, message, warning=True)
            self._stop(float(self.pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)))

    def shut_down(self, grace: float) -> None:
        """Stop the pod, whose machine goes away in ``grace`` seconds: it has failed as the victim of a disruption."""
        if self._terminal or self._disrupted:
            return
        reason, message = _SHUTDOWN
        self._failure = self._failure or _SHUTDOWN
        self._disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _SHUTDOWN_CONDITION,
            "message": message,
            "lastTransitionTime": stamp(now()),
        }
        self._services.note(self.pod, reason, message, warning=True)
        self._stop(min(grace, float(self.pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))))
        self._changed.set()

    async def remove(self) -> None:
        """End at once a pod that is no longer in the API, and forget its logs."""
        self._gone = True
        self._stop(0)
        self._deleting.set()
        await asyncio.wait({self._task})
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """Leave it as it is: the kubelet ends, and the pod with it."""
        self._task.cancel()

    def _stop(self, grace: float) -> None:
        self._stop_at = min(self._stop_at, asyncio.get_running_loop().time() + grace)
        self._stopping.set()

    async def _run(self) -> None:
        try:
            if not self._ended_before():
                if not self._lost_with_its_kubelet():
                    await self._live()
                self._terminal = True
                self._settle()
                await self._report()
            await self._deleting.wait()
            await self._confirm_deletion()
        except Exception:
            _LOG.exception("pod %s/%s is left alone after a mistake of ours", self.namespace, self.name)
            raise

    def _ended_before(self) -> bool:
        """Whether the pod had ended before we saw it."""
        before = self.pod.get("status") or {}
        names = ("initContainerStatuses", "containerStatuses")
        known = {one["name"]: one for name in names for one in before.get(name) or []}
        for container in self.everyone:
            if old := known.get(container.state.name):
                container.state.restore(old)
        self._terminal = before.get("phase") in (status.SUCCEEDED, status.FAILED)
        return self._terminal

    def _lost_with_its_kubelet(self) -> bool:
        """Whether it ran under a kubelet that is gone, and its processes with it; then it has failed."""
        before = self.pod.get("status") or {}
        self._started = parse(before["startTime"]) if before.get("startTime") else now()
        if not any(container.state.container_id for container in self.everyone):
            return False
        for container in self.everyone:
            if container.state.running:
                begun = parse(container.state.state["running"]["startedAt"])
                container.state.end(_LOST, "ContainerStatusUnknown", begun, now(), _LOST_MESSAGE)
        return True

    def _settle(self) -> None:
        """Mark each container as ended that never ran, or was lost between two starts."""
        for container in self.containers:
            if container.state.exit_code is None:
                moment = now()
                container.state.end(_LOST, "ContainerStatusUnknown", moment, moment, _UNSTARTED_MESSAGE)

    async def _live(self) -> None:
        """Run the pod from binding to the last container's end."""
        reporter = asyncio.create_task(self._report_changes())
        deadline = self._deadline()
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            while not work.done():
                await asyncio.gather(*(container.stop(self._left) for container in self.everyone))
                await asyncio.wait({work}, timeout=0.05)
            await work
        finally:
            for task in (work, stop, reporter):
                task.cancel()
            if deadline:
                deadline.cancel()

    def _left(self) -> float:
        return self._stop_at - asyncio.get_running_loop().time()

    def _deadline(self) -> asyncio.TimerHandle | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        left = (self._started + timedelta(seconds=seconds) - now()).total_seconds()
        message = "Pod was active on the node longer than the specified deadline"
        return asyncio.get_running_loop().call_later(max(left, 0), self.fail, "DeadlineExceeded", message)

    async def _work(self) -> None:
        """Make volumes and sandbox and run the containers until none is to be started again."""
        self._changed.set()
        if (refusal := images.refusal(self.pod)) is not None:
            self._refuse(refusal)
            return
        volumes = Volumes(self.pod, self.folder / "volumes", self._lookup, self._token, self._services.authority)
        sandbox = await self._prepared(volumes)
        if sandbox is None:
            return
        metadata = buckets = None
        try:
            if sandbox.metadata is not None:
                metadata = await self._services.serve_metadata(sandbox.metadata, lambda: self.pod)
            context = self._context(sandbox, volumes)
            buckets = PodBuckets(context, self._services.gcsfuse)
            if not await buckets.mount():
                return
            policy = self.pod["spec"].get("restartPolicy", "Always")
            for container in self.inits:
                await container.run(context, "Never" if policy == "Never" else "OnFailure")
                if container.state.exit_code != 0:
                    return
            async with volumes.kept_fresh():
                await asyncio.gather(*(container.run(context, policy) for container in self.containers))
        finally:
            if buckets is not None:
                await buckets.close()
            self._services.network.leave(self.uid)
            if metadata is not None:
                metadata.close()
            await sandbox.close()

    def _refuse(self, message: str) -> None:
        """Fail the pod without starting it."""
        moment = now()
        for container in self.everyone:
            # Its log says the same to whoever asks for that.
            container.state.container_id = f"process://refused-{self.uid}"
            log = LogFile(container.log_path(self.logs))
            log.write("stderr", OutputLine(f"encamp: {message}".encode()))
            log.close()
            container.state.end(images.EXIT_CODE, images.REASON, moment, moment, message)
        self._failure = (images.REASON, message)
        self._services.note(self.pod, "Failed", f"Error: {images.REASON}: {message}", warning=True)
        self._changed.set()

    async def _prepared(self, volumes: Volumes) -> PodSandbox | None:
        """Return volumes and sandbox, tried until they are there or the pod is to stop."""
        while not self._stopping.is_set():
            try:
                await volumes.make()
                spec = self.pod["spec"]
                hostname = spec.get("hostname") or self.name
                key = f"{self.namespace}/{hostname}.{spec.get('subdomain') or ''}"
                sandbox = await self._services.runtime.sandbox(PodRequest(self.uid, hostname[:63], key, self.folder))
                await self._services.network.join(self.uid, self.pod, sandbox)
            except ConfigError as error:
                self._services.note(self.pod, "FailedMount", f"MountVolume.SetUp failed: {error}", warning=True)
            except EncampError as error:
                self._services.note(self.pod, "FailedCreatePodSandBox", str(error), warning=True)
            else:
                self.address = sandbox.address
                await self._annotate(sandbox.notes)
                self._changed.set()
                return sandbox
            await self._pause(_RETRY_SECONDS)
        return None

    async def _annotate(self, notes: Mapping[str, str]) -> None:
        """Note on the pod where it is not run as a node would run it."""
        contexts = [self.pod["spec"], *self.pod["spec"]["containers"]]
        notes = dict(notes)
        if any((one.get("securityContext") or {}).get("runAsUser") for one in contexts):
            notes[NOTES_PREFIX + "run-as-user"] = "ignored: containers of the sandbox run as the user that started it"
        if notes:
            try:
                await self._services.api.patch(self.path, {"metadata": {"annotations": notes, "uid": self.uid}})
            except httpx.HTTPError as error:
                _LOG.warning("%s/%s has no notes: %s", self.namespace, self.name, error)

    async def _pause(self, seconds: float) -> None:
        await asyncio.wait({asyncio.create_task(self._stopping.wait())}, timeout=seconds)

    def _context(self, sandbox: PodSandbox, volumes: Volumes) -> PodContext:
        services = self._services
        return PodContext(
            pod=lambda: self.pod | {"status": self._status()},
            allocatable=services.allocatable(self.pod["spec"]["nodeName"]),
            sandbox=sandbox,
            volumes=volumes,
            folder=self.folder,
            logs=self.logs,
            lookup=self._lookup,
            base_env={**services.base_env, **sandbox.env},
            first_backoff_seconds=services.first_backoff_seconds,
            note=lambda reason, message, warning: services.note(self.pod, reason, message, warning=warning),
            changed=self._changed.set,
            stopping=self._stopping,
            dial=services.dial,
        )

    async def _lookup(self, kind: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._services.api.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
        except httpx.HTTPError as error:
            raise ConfigError(f"{kind} {name}: {error}") from error

    async def _token(self, account: str, source: Mapping[str, Any]) -> str:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source["audience"]] if source.get("audience") else [],
                "expirationSeconds": source.get("expirationSeconds", 3607),
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid},
            },
        }
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        try:
            answer = await self._services.api.create(path, body)
        except httpx.HTTPError as error:
            raise ConfigError(f"token of {account}: {error}") from error
        return (answer or {}).get("status", {}).get("token", "")

    def _status(self) -> dict[str, Any]:
        inits = [container.state for container in self.inits]
        states = [container.state for container in self.containers]
        policy = self.pod["spec"].get("restartPolicy", "Always")
        phase = status.phase(policy, inits, states, terminal=self._terminal)
        reason = message = None
        if self._failure and phase in (status.SUCCEEDED, status.FAILED):
            phase, (reason, message) = status.FAILED, self._failure
        before = self._sent.get("conditions") or (self.pod.get("status") or {}).get("conditions") or []
        network = {"podIP": self.address, "podIPs": [{"ip": self.address}]} if self.address else {}
        return {
            "phase": phase,
            "reason": reason,
            "message": message,
            "startTime": stamp(self._started),
            "hostIP": self._services.host_address,
            "hostIPs": [{"ip": self._services.host_address}],
            **network,
            "conditions": [
                *status.conditions(
                    phase, inits, states, sandbox=bool(self.address) and not self._terminal, before=before, now=now()
                ),
                *([self._disrupted] if self._disrupted else []),
            ],
            "initContainerStatuses": [state.to_json() for state in inits],
            "containerStatuses": [state.to_json() for state in states],
        }

    async def _report_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._report()

    async def _report(self) -> None:
        """Report the status to the API server, with retries; a status that it refuses keeps no deletion waiting."""
        while not self._gone:
            wanted = self._status()
            if wanted == self._sent:
                return
            try:
                await self._services.api.patch(f"{self.path}/status", status.patch_of(self.uid, wanted))
            except httpx.HTTPError as error:
                _LOG.warning("status of %s/%s not taken: %s", self.namespace, self.name, error)
                if self._deleting.is_set() and is_refused(error):
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._sent = wanted
                return

    async def _confirm_deletion(self) -> None:
        """Delete the object for good, since nothing of the pod runs any more."""
        while not self._gone:
            try:
                await self._services.api.delete(
                    self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                )
            except httpx.HTTPError as error:
                _LOG.warning("%s/%s not deleted: %s", self.namespace, self.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return
