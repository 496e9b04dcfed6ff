"""The reference of fields and rules in ``docs/job-files.md``, made of the models and the rules.

Prose around it is written by hand: a page has ``<!-- made: NAME -->`` and ``<!-- end -->``, and what stands between
them is made here. A test keeps both equal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.field_docs import distinct_fields
from encamp.spec.rules.registry import rules, rules_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.field_docs import FieldDoc
    from encamp.spec.rules.registry import Rule

_MADE = re.compile(r"(<!-- made: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_KINDS = {"V": "rules-v", "H": "rules-h", "E": "rules-e"}


def with_reference(page: str) -> str:
    """Return a page with what stands between its marks made anew."""
    parts = {"fields": "\n".join(_fields())}
    for letter, name in _KINDS.items():
        parts[name] = "\n".join(_rules([rule for rule in rules().values() if rule.id.startswith(letter)]))
    return _MADE.sub(lambda match: f"{match[1]}{parts[match['name']]}\n{match[3]}", page)


def _fields() -> Iterator[str]:
    """Yield a table a section: the fields that lie directly in it."""
    fields = list(distinct_fields())
    sections = ["", *(field.path for field in fields if field.section is not None and field.same_as is None)]
    for section in sections:
        yield f"### {f'`{section}`' if section else 'The file'}"
        yield ""
        yield "| field | type | default | meaning | rules |"
        yield "|---|---|---|---|---|"
        yield from (_row(field) for field in fields if field.parent == section)
        yield ""


def _row(field: FieldDoc) -> str:
    name = field.path.rpartition(".")[2]
    meaning = field.meaning
    if field.same_as is not None:
        meaning += f" As `{field.same_as}`."
    kind = ", ".join(f"`{choice}`" for choice in field.choices) if field.choices else field.kind
    known = ", ".join(f"[{rule.id}](#{rule.id.lower()})" for rule in rules_about(field.path))
    return f"| `{name}` | {kind} | {_default(field)} | {meaning} | {known} |"


def _default(field: FieldDoc) -> str:
    if field.default is None or field.default == []:
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _rules(chosen: list[Rule]) -> Iterator[str]:
    yield "| rule | says | fields | source |"
    yield "|---|---|---|---|"
    for rule in chosen:
        fields = ", ".join(f"`{field}`" for field in rule.fields)
        yield f'| <a id="{rule.id.lower()}"></a>{rule.id} | {rule.sentence} | {fields} | {rule.source} |'
