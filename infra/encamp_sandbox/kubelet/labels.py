"""Labels and their selectors, as Kubernetes has them (k8s.io/apimachinery/pkg/labels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects an object by its labels; an empty one selects every object."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(matches(one, labels) for one in selector.get("matchExpressions") or [])


def matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil one expression of a selector; one with an unknown operator is fulfilled by none."""
    value, values = labels.get(expression["key"]), expression.get("values") or []
    operator = expression["operator"]
    if operator in ("Gt", "Lt"):
        if value is None or not value.lstrip("-").isdigit():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    known = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return known.get(operator, False)
