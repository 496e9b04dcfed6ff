"""The ``gcp`` provider as the engine attaches it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

from encamp_sandbox.gcp_provider.model import Context
from encamp_sandbox.gcp_provider.session import GcpSession
from encamp_sandbox.provider import CheckResult, Failure, Provider

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.client import Rest
    from encamp_sandbox.provider import Configuration, Properties


class GcpProvider(Provider):
    """Serves the types of ``table.py`` over the REST APIs of one project."""

    name: ClassVar[str] = "gcp"
    version: ClassVar[str] = version("pulumi-gcp")

    def __init__(self, rest: Rest, project: str) -> None:
        self._rest = rest
        self._project = project

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Refuse every project but the sandbox's own."""
        del urn, olds
        project = news.get("project")
        if isinstance(project, str) and project != self._project:
            reason = (
                f"this is the sandbox's provider, which serves the project {self._project} only, not {project};"
                " leave the sandbox's environment to reach Google Cloud"
            )
            return CheckResult(news, [Failure("project", reason)])
        return CheckResult(news)

    async def configure(self, configuration: Configuration) -> GcpSession:
        """Make the session of a connection."""
        labels = configuration.value("defaultLabels") or {}
        context = Context(
            rest=self._rest,
            project=self._project,
            region=configuration.text("region"),
            zone=configuration.text("zone"),
            labels={str(key): str(value) for key, value in labels.items()},
        )
        return GcpSession(context)
