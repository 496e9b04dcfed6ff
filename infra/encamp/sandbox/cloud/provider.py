"""The ``gcp`` provider as the engine attaches it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

from encamp.sandbox.cloud.gcp.model import Context
from encamp.sandbox.cloud.gcp.session import GcpSession
from encamp.sandbox.provider import CheckResult, Failure, Provider

if TYPE_CHECKING:
    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.cloud.storage_client import StorageClient
    from encamp.sandbox.layout import Layout
    from encamp.sandbox.provider import Configuration, Properties


class GcpProvider(Provider):
    """Serves the types of ``gcp/table.py`` over the sandbox's cloud."""

    name: ClassVar[str] = "gcp"
    version: ClassVar[str] = version("pulumi-gcp")

    def __init__(self, cloud: Cloud, storage: StorageClient, layout: Layout) -> None:
        self._cloud = cloud
        self._storage = storage
        self._layout = layout

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Refuse every project but the sandbox's own."""
        del urn, olds
        project = news.get("project")
        if isinstance(project, str) and project != self._cloud.project:
            reason = (
                f"this is the sandbox's provider, which serves the project {self._cloud.project} only, not {project};"
                " leave the sandbox's environment to reach Google Cloud"
            )
            return CheckResult(news, [Failure("project", reason)])
        return CheckResult(news)

    async def configure(self, configuration: Configuration) -> GcpSession:
        """Make the session of a connection."""
        labels = configuration.value("defaultLabels") or {}
        context = Context(
            cloud=self._cloud,
            storage=self._storage,
            layout=self._layout,
            region=configuration.text("region"),
            zone=configuration.text("zone"),
            labels={str(key): str(value) for key, value in labels.items()},
        )
        return GcpSession(context)
