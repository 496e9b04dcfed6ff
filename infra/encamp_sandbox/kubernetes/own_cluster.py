"""Checks of a kubeconfig: it must name the sandbox's own API server, its authority, and its own auth plugin.

A kubeconfig names a server to send credentials to and a program to run, and it comes from whoever asks. Neither is used
before it has been compared with what the sandbox itself wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from encamp_sandbox.access import AUTH_PLUGIN
from encamp_sandbox.ports import LOOPBACK
from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from pathlib import Path

    from encamp_sandbox.kubernetes.kubeconfig import ClusterAccess, ExecPlugin
    from encamp_sandbox.layout import Layout

_HINT: Final = "use a kubeconfig that this sandbox made: `encamp sandbox env`, or the output of an environment's stack"
_NAMES: Final = (LOOPBACK, "localhost")


@dataclass(frozen=True)
class OwnCluster:
    """The one cluster that a provider serves.

    Attributes:
        ports: of its API server and of the front, which stands before it where the sandbox lies.
        authority: its certificate authority in PEM.
        plugin: the program that gives credentials.
    """

    ports: frozenset[int]
    authority: bytes
    plugin: Path

    def checked(self, access: ClusterAccess) -> ClusterAccess:
        """Return a kubeconfig's access, its plugin by the absolute path.

        Raises:
            ProviderError: it leads elsewhere, trusts somebody else, or runs another program.
        """
        place = urlsplit(access.server)
        if place.scheme != "https" or place.hostname not in _NAMES or place.port not in self.ports:
            raise ProviderError(
                "the kubeconfig leads to another cluster than this sandbox's", where=access.server, hint=_HINT
            )
        if access.insecure or access.server_name not in (None, *_NAMES):
            raise ProviderError("the kubeconfig does not check who answers", where=access.server, hint=_HINT)
        if access.authority is not None and access.authority.strip() != self.authority.strip():
            raise ProviderError("the kubeconfig trusts another certificate authority", where=access.server, hint=_HINT)
        return access if access.plugin is None else replace(access, plugin=self._own_plugin(access.plugin))

    def _own_plugin(self, plugin: ExecPlugin) -> ExecPlugin:
        if plugin.command not in (AUTH_PLUGIN, str(self.plugin)):
            raise ProviderError(
                f"the kubeconfig runs another program than {AUTH_PLUGIN}", where=plugin.command, hint=_HINT
            )
        if plugin.args or plugin.env:
            raise ProviderError(
                f"the kubeconfig gives {AUTH_PLUGIN} arguments or variables", where=plugin.command, hint=_HINT
            )
        return replace(plugin, command=str(self.plugin))


def own_cluster(layout: Layout) -> OwnCluster:
    """Return the cluster of a sandbox."""
    ports = frozenset((layout.ports.apiserver, layout.ports.front_tls))
    return OwnCluster(ports, layout.ca_certificate.read_bytes(), layout.bin / AUTH_PLUGIN)
