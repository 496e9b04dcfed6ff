"""Lookup of a job file's field or rule by any of its names, for ``encamp explain``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.spec.field_docs import FieldDoc, job_fields
from encamp.spec.paths import nearest
from encamp.spec.rules.registry import Rule, rules, rules_about

if TYPE_CHECKING:
    from collections.abc import Sequence

_RULE = re.compile(r"[VHEvhe][0-9]{2}")
_INDEX = re.compile(r"\[\d*\]")
_MOST_LISTED = 12
OURS, AI_PLATFORM = "encamp's own field", "a field of AI Platform Training, from the API's own reference"


@dataclass(frozen=True)
class Explained:
    """A field with its rules and the fields below it."""

    field: FieldDoc
    rules: Sequence[Rule]
    below: Sequence[FieldDoc]

    @property
    def source(self) -> str:
        """The field's origin in words: AI Platform's API, or encamp."""
        return OURS if self.field.path.partition(".")[0] == "encamp" else AI_PLATFORM


def explained_rule(name: str) -> Rule | None:
    """Return the rule of an id such as ``V07``; None for what has not the form of an id.

    Raises:
        UsageError: there is no rule of that id.
    """
    if not _RULE.fullmatch(name):
        return None
    found = rules().get(name.upper())
    if found is None:
        raise UsageError(f"there is no rule {name.upper()}", hint=f"rules are {', '.join(rules())}")
    return found


def explained_field(name: str) -> Explained:
    """Return the field of a dotted path, of the end of one, or of a bare name.

    Args:
        name: in camelCase or snake_case, with or without indices.

    Raises:
        UsageError: no field has that name, or several have it.
    """
    fields = job_fields()
    path = _camel(name)
    ending = [each for each in fields if each == path or each.endswith(f".{path}")]
    if path in fields:
        ending = [path]
    if not ending:
        raise _unknown(name, path)
    if len(ending) > 1:
        shown = ", ".join(ending[:_MOST_LISTED]) + (", ..." if len(ending) > _MOST_LISTED else "")
        raise UsageError(f"{len(ending)} fields are called {name}", hint=f"name one of {shown}")
    field = fields[ending[0]]
    below = [each for each in fields.values() if each.parent == field.path]
    return Explained(field, rules_about(field.path), below)


def _camel(name: str) -> str:
    """Return a path in camelCase without indices."""
    words = {
        snake: camel
        for field in job_fields().values()
        for snake, camel in zip(field.snake_path.split("."), field.path.split("."), strict=True)
    }
    return ".".join(words.get(part, part) for part in _INDEX.sub("", name).strip(".").split("."))


def _unknown(name: str, path: str) -> UsageError:
    fields = job_fields()
    leaves = {each.rpartition(".")[2] for each in fields}
    close = nearest(path, list(fields)) if "." in path else nearest(path, sorted(leaves))
    if close is None:
        close = nearest(path.rpartition(".")[2], sorted(leaves))
    hint = f"did you mean {close}? " if close else ""
    return UsageError(f"no field is called {name[:80]!r}", hint=f"{hint}`encamp explain` lists all")
