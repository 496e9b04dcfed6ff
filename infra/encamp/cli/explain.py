"""``encamp explain``: what a field or a rule of job files means."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.machines.preconditions import Precondition
    from encamp.spec.explaining import Explained
    from encamp.spec.field_docs import FieldDoc
    from encamp.spec.rules.registry import Rule

_WIDTH = 100


@click.command(name="explain")
@click.argument("name", metavar="[FIELD]", required=False)
def command(name: str | None) -> None:
    """Say what a field means, its type, values, default, rules and source.

    FIELD is a path such as scheduling.maxWaitTime, a bare name such as workerCount, in camelCase or snake_case, or the
    id of a rule such as V07 or of a precondition such as G03. Without it the tree of all fields is shown.
    """
    from encamp.plan.machines.preconditions import precondition  # noqa: PLC0415 - help pages need no models
    from encamp.spec.explaining import explained_field, explained_rule  # noqa: PLC0415

    if name is None:
        lines = _tree()
    elif (rule := explained_rule(name)) is not None:
        lines = _rule_page(rule)
    elif (found := precondition(name)) is not None:
        lines = _precondition_page(found)
    else:
        lines = _field_page(explained_field(name))
    say("\n".join(lines))


def _field_page(found: Explained) -> Iterator[str]:
    field = found.field
    yield field.path
    yield from _wrapped(field.meaning, "  ")
    yield ""
    yield from _row("type", field.kind)
    if field.choices:
        yield from _row("values", ", ".join(field.choices))
    if field.default is not None:
        yield from _row("default", default_text(field))
    if field.snake_path != field.path:
        yield from _row("also as", field.snake_path)
    yield from _row("source", found.source)
    if found.rules:
        yield from ["", "rules"]
        for rule in found.rules:
            yield from _wrapped(f"{rule.id}  {rule.sentence} (source: {rule.source})", "  ", "       ")
    if found.below:
        yield from ["", "fields below it"]
        yield from (_line(each, 1) for each in found.below)


def _rule_page(rule: Rule) -> Iterator[str]:
    yield from _wrapped(f"{rule.id}  {rule.sentence}", "", "     ")
    yield ""
    yield from _row("fields", ", ".join(rule.fields))
    yield from _row("source", rule.source)


def _precondition_page(found: Precondition) -> Iterator[str]:
    yield from _wrapped(f"{found.id}  {found.sentence}", "", "     ")
    yield ""
    yield from _row("when", "a job is planned for an environment")
    yield from _row("source", found.source)


def _tree() -> Iterator[str]:
    from encamp.spec.field_docs import distinct_fields  # noqa: PLC0415

    for field in distinct_fields():
        yield _line(field, field.path.count("."))
    yield from ["", "`encamp explain FIELD` says more, `encamp explain V07` what a rule says."]


def _line(field: FieldDoc, depth: int) -> str:
    name = f"{'  ' * depth}{field.path.rpartition('.')[2]}"
    meaning = f"as {field.same_as}" if field.same_as else field.meaning
    text = f"{name:<36} {meaning}"
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3].rstrip()}..."


def default_text(field: FieldDoc) -> str:
    """A default as a file would spell it."""
    if isinstance(field.default, bool):
        return "true" if field.default else "false"
    return "none" if field.default == [] else str(field.default)


def _row(name: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"{name:<9}{text}", "  ", " " * 11)


def _wrapped(text: str, first: str, rest: str | None = None) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
