"""Metrics of log entries, sinks and exclusions.

Source: hashicorp/terraform-provider-google-beta google-beta/services/logging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, ResourceType

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_OWN = frozenset({"project", "deletionPolicy"})


class _Metrics(ResourceType):
    """Metrics go by their bare names, which may hold slashes."""

    def path(self, name: str) -> str:
        """Return the URL path of a full name."""
        parent, _, own = name.partition("/metrics/")
        return f"/{self.endpoint}/{parent}/metrics/{own.replace('/', '%2F')}" if own else f"/{self.endpoint}/{name}"


METRIC: Final = _Metrics(
    "gcp:logging/metric:Metric",
    "logging/v2",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/metrics",
    TypeMapping(
        names={
            "bucketOptions.explicitBuckets": "explicitBuckets",
            "bucketOptions.exponentialBuckets": "exponentialBuckets",
            "bucketOptions.linearBuckets": "linearBuckets",
        },
        own=_OWN,
    ),
    by_id=lambda resource_id, context: f"projects/{context.project}/metrics/{resource_id}",
    identifier=lambda name: name.partition("/metrics/")[2],
    change=Change.PUT,
)


def _draft_sink(body: Body, inputs: Properties, _context: Context) -> tuple[Body, dict[str, str]]:
    unique = inputs.get("uniqueWriterIdentity", True)
    return body, {"uniqueWriterIdentity": str(unique).lower()}


SINK: Final = ResourceType(
    "gcp:logging/projectSink:ProjectSink",
    "logging/v2",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/sinks",
    TypeMapping(own=_OWN | {"uniqueWriterIdentity"}),
    prepare=_draft_sink,
    change=Change.MASK,
)

EXCLUSION: Final = ResourceType(
    "gcp:logging/projectExclusion:ProjectExclusion",
    "logging/v2",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/exclusions",
    TypeMapping(own=frozenset({"project"})),
    change=Change.MASK,
)

LOGGING_TYPES: Final = (METRIC, SINK, EXCLUSION)
