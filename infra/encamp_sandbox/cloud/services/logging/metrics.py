"""Metrics of log entries, and sinks.

Sources: cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics,
cloud.google.com/logging/docs/export/configure_export_v2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.rules import Rule, name_pattern, pattern
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import default
from encamp_sandbox.cloud.services.kms.use import service_agent

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_LONGEST_FILTER = 20_000
_RESERVED = ("_Default", "_Required")
_SHARED_WRITER = "serviceAccount:cloud-logs@system.gserviceaccount.com"


def _filter(change: Change) -> Problem:
    text = str(change.at("filter") or "")
    return None if 0 < len(text) <= _LONGEST_FILTER else f"filter must have 1 to {_LONGEST_FILTER} characters"


def _labels(change: Change) -> Problem:
    described = {str(label.get("key")) for label in change.at("metricDescriptor.labels") or ()}
    extracted = set(change.at("labelExtractors") or {})
    if described == extracted:
        return None
    return f"labelExtractors and metricDescriptor.labels differ in {', '.join(sorted(described ^ extracted))}"


def _value(change: Change) -> Problem:
    descriptor = change.at("metricDescriptor") or {}
    distribution, extracted = descriptor.get("valueType") == "DISTRIBUTION", bool(change.at("valueExtractor"))
    if distribution != extracted:
        return "a value_extractor is required if the value type is DISTRIBUTION, and allowed only then"
    if descriptor and descriptor.get("metricKind") != "DELTA":
        return "metricDescriptor.metricKind of a metric of log entries must be DELTA"
    return None


def _extractors(change: Change) -> Problem:
    written = [*(change.at("labelExtractors") or {}).values(), change.at("valueExtractor")]
    bad = [one for one in written if one and not re.fullmatch(r"(REGEXP_)?EXTRACT\(.+\)", str(one))]
    return f"Invalid extractor: {bad[0]}; it is EXTRACT(field) or REGEXP_EXTRACT(field, regex)" if bad else None


def _fill_metric(change: Change) -> None:
    kind = f"logging.googleapis.com/user/{change.name.rpartition('/')[2]}"
    default(
        change.body,
        {
            "metricDescriptor": {"metricKind": "DELTA", "valueType": "INT64", "unit": "1"},
            "metricDescriptor.type": kind,
            "metricDescriptor.unit": "1",
            "metricDescriptor.name": f"projects/{change.project}/metricDescriptors/{kind}",
        },
    )


class _Metrics(Plain):
    """Metrics go by their bare names."""

    def decorate(self, resource: CloudResource, cloud: Cloud) -> dict[str, Any]:
        """Return the bare name and the times."""
        del cloud
        name = resource.name.partition("/metrics/")[2]
        return {"name": name, "createTime": resource.created, "updateTime": resource.updated}


METRICS: Final = Collection(
    kind="logMetric",
    path="projects/{project}/metrics",
    style=_Metrics(),
    permission="logging.logMetrics",
    identify=lambda _ask, body: (str(body.get("name") or ""), {**body, "name": None}),
    rules=(
        name_pattern(
            "logging-metric-names",
            r"[A-Za-z0-9_\-.,+!*',()%][A-Za-z0-9_\-.,+!*',()%]{0,99}",
            '"name" ("{value}") is no identifier of a metric: at most 100 letters, digits and _-.,+!*\',()%/',
        ),
        Rule("logging-metric-filters", _filter),
        Rule("logging-metric-labels", _labels),
        Rule("logging-metric-values", _value),
        Rule("logging-metric-extractors", _extractors),
    ),
    fill=_fill_metric,
    mend=_fill_metric,
    update=Update.REPLACE,
)


def _sink_name(change: Change) -> Problem:
    name = change.name.rpartition("/")[2]
    return f"the sink {name} is Cloud Logging's own" if name in _RESERVED else None


def _show_sink(sink: CloudResource, cloud: Cloud) -> dict[str, Any]:
    shared = sink.body.get("_shared")
    writer = _SHARED_WRITER if shared else f"serviceAccount:{service_agent('logging', cloud.project)}"
    return {
        "name": sink.short_name,
        "resourceName": sink.name,
        "writerIdentity": writer,
        "createTime": sink.created,
        "updateTime": sink.updated,
    }


def _draft_sink(ask: Any, body: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    shared = ask.call.query.get("uniqueWriterIdentity") == "false"
    return str(body.get("name") or ""), {**body, "name": None, "_shared": shared}


SINKS: Final = Collection(
    kind="sink",
    path="projects/{project}/sinks",
    style=Plain(),
    permission="logging.sinks",
    identify=_draft_sink,
    rules=(
        name_pattern(
            "logging-sink-names",
            r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}",
            '"name" ("{value}") must be at most 100 letters, digits, _, . and -',
        ),
        Rule("logging-sinks-of-google", _sink_name),
        pattern(
            "logging-sink-destinations",
            "destination",
            r"storage\.googleapis\.com/[^/\s]+|(bigquery|pubsub|logging)\.googleapis\.com/projects/\S+",
            '"destination" ("{value}") is no destination of a sink',
        ),
    ),
    show=_show_sink,
    update=Update.MASK,
)
