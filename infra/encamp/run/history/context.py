"""The context of commands about jobs: records, the cloud, environments, and where lines for people go."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.resources import Container
from encamp.cloud.rest import GoogleClient
from encamp.own_cluster import own_kubeconfig
from encamp.project import project_folder
from encamp.retries import PATIENT, STEADY
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.workspace import state_folder
from encamp.run.store.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from encamp.run.store.outputs import EnvironmentOutputs


@dataclass
class Context:
    """One command's view of the world.

    Attributes:
        show: gets a line for people; must not raise.
        log: gets a replica's name and a line of its log; must not raise.
        folder: ``.encamp``: records and the jobs' folders.
        allocatable: what a machine type leaves to pods, see ``pending.waiting``.
    """

    show: Callable[[str], None]
    log: Callable[[str, str], None]
    folder: Path = field(default_factory=state_folder)
    client: GoogleClient = field(default_factory=GoogleClient)
    allocatable: Callable[[str], Mapping[str, float]] | None = None
    _environments: dict[str, EnvironmentOutputs] = field(default_factory=dict)

    @property
    def patient(self) -> GoogleClient:
        """A client for work on a job that nobody waits for at a prompt: it tries for minutes, and says so."""
        return self.client.with_policy(PATIENT, self.show)

    @property
    def steady(self) -> Context:
        """The same for work before a job begins: it asks Google for up to a minute, and says so."""
        return replace(self, client=self.client.with_policy(STEADY, self.show))

    def records(self) -> Records:
        """The record of jobs: ``ENCAMP_RECORD_URL``, else a file."""
        return Records.open(os.environ.get("ENCAMP_RECORD_URL") or None, self.folder)

    def job_folder(self, name: str) -> Path:
        """A job's own folder: its engine workspace and its spooled logs."""
        return self.folder / "jobs" / name

    def environment(self, stack: str) -> EnvironmentOutputs:
        """An environment's outputs, asked of the engine once.

        Raises:
            EngineError: the environment is not up.
        """
        if stack not in self._environments:
            engine = JobEngine(project_folder(), self.show)
            self._environments[stack] = engine.environment(stack)
        return self._environments[stack]

    def cluster(self, environment: EnvironmentOutputs) -> Cluster:
        """The API server of an environment, by the cluster's own address where this process is a pod of it."""
        return Cluster(own_kubeconfig(environment.cluster_path) or environment.kubeconfig)

    def operations(self, cluster: str) -> Callable[[], Sequence[str]]:
        """Tells what GKE is at in ``projects/P/locations/L/clusters/C``, in words."""
        container = Container(self.client)
        return lambda: container.open_operations(cluster)

    def pools(self, cluster: str) -> Callable[[], Sequence[dict[str, Any]]]:
        """Lists the node pools of ``projects/P/locations/L/clusters/C``."""
        container = Container(self.client)
        return lambda: container.node_pools(cluster)


def never_raising(write: Callable[[str], None]) -> Callable[[str], None]:
    """A ``show`` that survives a closed terminal: nothing of a job may depend on who reads along."""

    def show(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            write(line)

    return show
