"""The provider's own configuration: which cluster, and how unreachable ones and existing objects are treated.

Argument names and their environment variables are those of ``pulumi_kubernetes.Provider``.
"""

from __future__ import annotations

import importlib.metadata
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from encamp_sandbox.kubernetes.kubeconfig import load
from encamp_sandbox.kubernetes.session import KubernetesSession, SessionOptions
from encamp_sandbox.kubernetes.struck import StruckSession
from encamp_sandbox.provider import UNKNOWN, CheckResult, DiffResult, Failure, Provider, ProviderError, diff

if TYPE_CHECKING:
    from encamp_sandbox.cloud.striking import FaultSource
    from encamp_sandbox.kubernetes.own_cluster import OwnCluster
    from encamp_sandbox.provider import Configuration, Properties

REFUSED: Final = ("renderYamlToDirectory", "alwaysRender")
_IDENTIFIER: Final = "clusterIdentifier"
VARIABLES: Final = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
}


@dataclass(frozen=True)
class _Flags:
    configuration: Configuration

    def __getitem__(self, name: str) -> bool:
        if name in self.configuration.args:
            return self.configuration.flag(name)
        return os.environ.get(VARIABLES[name], "").lower() == "true"


class KubernetesProvider(Provider):
    """Serves ``kubernetes:*`` to any number of engines and clusters."""

    name: ClassVar[str] = "kubernetes"
    version: ClassVar[str] = importlib.metadata.version("pulumi-kubernetes")

    def __init__(self, own: OwnCluster | None, faults: FaultSource | None = None) -> None:
        """Serve the cluster ``own`` alone, any where it is None; ``faults`` says what shall go wrong."""
        self._own = own
        self._faults = faults

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Refuse what this provider does not do."""
        del urn, olds
        failures = [
            Failure(name, "the sandbox's provider does not render to YAML") for name in REFUSED if news.get(name)
        ]
        if news.get("enableServerSideApply") in (False, "false"):
            failures.append(Failure("enableServerSideApply", "the sandbox's provider knows server-side apply only"))
        return CheckResult(news, failures)

    async def diff_config(self, urn: str, olds: Properties, news: Properties) -> DiffResult:
        """Return the effect of a changed config: another cluster replaces every resource.

        Another way to the same one does not.
        """
        del urn
        before, now = olds.get(_IDENTIFIER), news.get(_IDENTIFIER)
        if now and before == now:
            return diff(olds, news, replace=lambda _: False)
        moved = _cluster(olds) != _cluster(news)
        ways = ("kubeconfig", "context", "cluster") if moved else ()
        return diff(olds, news, replace=lambda path: path[0] in (*ways, *((_IDENTIFIER,) if before and now else ())))

    async def configure(self, configuration: Configuration) -> KubernetesSession:
        """Read the kubeconfig; the cluster is not asked until a resource needs it."""
        flags = _Flags(configuration)
        kubeconfig = configuration.args.get("kubeconfig")
        try:
            access = load(
                str(kubeconfig) if kubeconfig else None, configuration.text("context"), configuration.text("cluster")
            )
            access = self._own.checked(access) if self._own else access
        except ProviderError as error:
            # An unreachable cluster is told of when a resource needs it, so that others of the run go on.
            access = error
        own = "" if isinstance(access, ProviderError) else access.namespace
        options = SessionOptions(
            namespace=configuration.text("namespace") or own or "default",
            delete_unreachable=flags["deleteUnreachable"],
            skip_update_unreachable=flags["skipUpdateUnreachable"],
            mutable_config_maps=flags["enableConfigMapMutable"],
            mutable_secrets=flags["enableSecretMutable"],
            patch_force=flags["enablePatchForce"],
            upsert=flags["upsertExistingObjects"],
        )
        if self._faults is None:
            return KubernetesSession(access, options)
        return StruckSession(access, options, self._faults)


def _cluster(inputs: Properties) -> tuple[str, bytes | None] | None:
    kubeconfig, context, cluster = (inputs.get(name) for name in ("kubeconfig", "context", "cluster"))
    if UNKNOWN in (kubeconfig, context, cluster):
        return None
    try:
        access = load(kubeconfig or None, context or None, cluster or None)
    except ProviderError:
        return None
    return access.server, access.authority
