"""``encamp.Environment``: an environment as a component of any Pulumi program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from encamp.components.environment import PlannedEnvironment
from encamp.components.renamed import keep_renamed
from encamp.plan.environment.planning import plan_environment
from encamp.public_components.telling import refuse_second_environment, run_errors, tell_environment
from encamp.spec.environment import EnvironmentSpec, parse_environment, with_files

if TYPE_CHECKING:
    from collections.abc import Mapping


class Environment(PlannedEnvironment):
    """The long-lived resources around training jobs: cluster, network, registry, buckets, namespace, queues, access.

    A program declares one environment at most. What ``adopt`` names exists already: it is read, never changed, and
    stays when the stack is destroyed.

    Args:
        name: the logical name; also the environment's name where ``spec`` has none. It is on labels and in names of
            the cloud, so a change replaces the environment.
        spec: what a stack's ``encamp:environment`` says, typed or as a mapping with the same keys. ``project`` is
            the config's ``gcp:project`` where it is left out. Every name in it is plain text, because the plan and
            its costs are made of them before anything exists: no ``Output`` is taken. Paths of files in it are
            relative to the program's working directory.
        acts_as: e-mail of the service account that the program's Google provider impersonates, if it does.
        opts: of the component. A Google provider in ``providers`` serves everything in it.

    Attributes:
        spec: the environment as read, files included.
        cluster: name of its GKE cluster.
        kubeconfig: a kubeconfig that asks ``gke-gcloud-auth-plugin`` for tokens; it holds no secret.
        namespace: Kubernetes namespace of the jobs.
        artifacts_bucket: name of the bucket of results, logs and receipts, without ``gs://``.
        registry: ``REGION-docker.pkg.dev/PROJECT/NAME`` of the repository for images.
        outputs: all of it and more by the names that encamp's own stacks export, for ``pulumi.export``.

    Raises:
        pulumi.RunError: everything that is wrong with ``spec``, or it cannot be planned; nothing was declared.
    """

    spec: EnvironmentSpec
    cluster: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    namespace: pulumi.Output[str]
    artifacts_bucket: pulumi.Output[str]
    registry: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        spec: EnvironmentSpec | Mapping[str, Any],
        *,
        acts_as: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        with run_errors():
            read = _read(name, spec)
            plan = plan_environment(read)
            refuse_second_environment(read)
            tell_environment(read, plan)
        keep_renamed()
        super().__init__(name, plan, acts_as=acts_as, opts=opts)
        self.spec = read
        self.cluster = self._output("cluster")
        self.kubeconfig = self._output("kubeconfig")
        self.namespace = self._output("namespace")
        self.artifacts_bucket = self._output("artifactsBucket")
        self.registry = self._output("registry")

    def _output(self, name: str) -> pulumi.Output[str]:
        return pulumi.Output.from_input(self.outputs[name]).apply(str)


@dataclass(frozen=True)
class EnvironmentReference:
    """An environment of another stack, for a job that is declared apart from it.

    Attributes:
        spec: the same as that stack's: a job is planned for it.
        cluster: name of the cluster, such as ``stack_reference.require_output("cluster")``.
        kubeconfig: of the same cluster, such as ``stack_reference.require_output("kubeconfig")``.
    """

    spec: EnvironmentSpec
    cluster: pulumi.Input[str]
    kubeconfig: pulumi.Input[str]


def _read(name: str, spec: EnvironmentSpec | Mapping[str, Any]) -> EnvironmentSpec:
    """The environment with every rule applied and the contents of its files.

    Raises:
        SpecError: everything that is wrong with it.
        UsageError: there is no such file.
    """
    data = (
        spec.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(spec, EnvironmentSpec) else spec
    )
    named = {**data, "name": data.get("name") or name}
    read = parse_environment(named, project=pulumi.Config("gcp").get("project"), source=f"Environment {name!r}")
    return with_files(read, Path.cwd())
