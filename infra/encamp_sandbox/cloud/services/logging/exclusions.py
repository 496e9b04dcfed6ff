"""Exclusions of a project: entries that its own log bucket does not take in.

Source: cloud.google.com/logging/docs/reference/v2/rest/v2/projects.exclusions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.cloud.log_filter import FilterError, matcher
from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.rules import Rule, name_pattern
from encamp_sandbox.cloud.rest.styles import Plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_KIND: Final = "logExclusion"


def _filter(change: Change) -> Problem:
    text = str(change.at("filter") or "")
    try:
        matcher(text)
    except FilterError as error:
        return str(error)
    return None if text else "An exclusion needs a filter."


def _show(exclusion: CloudResource, cloud: Cloud) -> dict[str, Any]:
    del cloud
    return {"name": exclusion.short_name, "createTime": exclusion.created, "updateTime": exclusion.updated}


EXCLUSIONS: Final = Collection(
    kind=_KIND,
    path="projects/{project}/exclusions",
    style=Plain(),
    permission="logging.exclusions",
    rules=(
        name_pattern(
            "logging-exclusion-names",
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
            '"name" ("{value}") must be at most 100 letters, digits, _, . and -',
        ),
        Rule("logging-exclusion-filters", _filter),
    ),
    show=_show,
    update=Update.MASK,
)


def excluded_by(cloud: Cloud) -> list[Callable[[dict[str, Any]], bool]]:
    """Return a predicate on excluded entries for each exclusion that is on."""
    return [matcher(str(one.body["filter"])) for one in cloud.store.all_of(_KIND) if not one.body.get("disabled")]
