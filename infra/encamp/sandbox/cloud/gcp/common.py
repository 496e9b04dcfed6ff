"""Rules and outputs that many types share: labels, deletion policy, project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.model import Rule, choice_rule

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

#: Names of Compute Engine resources (RFC 1035).
COMPUTE_NAME: Final = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
COMPUTE_NAME_SOURCE: Final = "cloud.google.com/compute/docs/naming-resources"
_LABEL_SOURCE = "cloud.google.com/resource-manager/docs/creating-managing-labels#requirements"
_LABEL_KEY = re.compile(r"[a-z\u00df-\u00ff][\w-]{0,62}")
_LABEL_VALUE = re.compile(r"[\w-]{0,63}")
_MAX_LABELS = 64

DELETION_POLICY: Final = choice_rule(
    "deletion policy",
    "deletionPolicy",
    ("DELETE", "PREVENT", "ABANDON"),
    "github.com/hashicorp/terraform-provider-google website/docs/r (deletion_policy)",
)


def labels_rule(key: str) -> Rule:
    """Labels: at most 64, keys and values of lowercase letters, digits, ``_`` and ``-``, at most 63 each."""

    def test(inputs: Properties, _: Context) -> Problem:
        labels = inputs.get(key) or {}
        if len(labels) > _MAX_LABELS:
            return f"{key} holds {len(labels)} labels, at most {_MAX_LABELS} are allowed"
        for name, value in labels.items():
            text = str(value)
            if not _LABEL_KEY.fullmatch(name) or name != name.lower():
                return (
                    f"Label key '{name}' violates format constraints (lowercase letters, numbers, _ and -, at most 63)"
                )
            if not _LABEL_VALUE.fullmatch(text) or text != text.lower():
                return (
                    f"Label value '{text}' violates format constraints"
                    " (lowercase letters, numbers, _ and -, at most 63)"
                )
        return None

    return Rule("labels", _LABEL_SOURCE, (key,), test)


def _project(inputs: Properties, context: Context) -> Problem:
    project = inputs.get("project") or context.project
    if project == context.project:
        return None
    return f"the sandbox serves the project {context.project} only, not {project}"


#: Not Google's rule but the sandbox's: nothing that is meant for a real project ever lands here, nor the other way.
PROJECT: Final = Rule("project", "docs/decisions/0021-sandbox-cloud.md", ("project",), _project)


def label_outputs(inputs: Properties, key: str, context: Context) -> dict[str, Any]:
    """The label outputs: the resource's own, with the provider's defaults, and all that the cloud holds."""
    own = dict(inputs.get(key) or {})
    every = {**context.labels, **own}
    return {"pulumiLabels": every, "effectiveLabels": every}


def given(inputs: Properties) -> dict[str, Any]:
    """Inputs without what is absent and without the provider's own notes."""
    return {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}
