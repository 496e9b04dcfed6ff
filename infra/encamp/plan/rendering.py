"""Templates of ``templates/`` with values in them: the only place that knows the template engine."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from encamp.resources import resource

if TYPE_CHECKING:
    import jinja2

#: Characters that JSON writes as they are and YAML refuses or folds.
_UNSAFE = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def render_text(template: str, **values: Any) -> str:
    """Return a template of ``templates/`` with values in it; an unknown name in it is an error."""
    return _environment().get_template(template).render(**values)


def render_html(template: str, **values: Any) -> str:
    """Return the same for a page: whatever stands in a value is text there, and no mark-up."""
    return _environment().overlay(autoescape=True).get_template(template).render(**values)


def to_json(value: Any) -> str:
    """Return JSON that YAML reads back as the same value."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - `encamp plan` and `validate` render nothing

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - YAML, not HTML: every value goes through to_json
        keep_trailing_newline=True,
    )
    found.filters["tojson"] = to_json
    return found
