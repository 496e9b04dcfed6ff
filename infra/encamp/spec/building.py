"""Builds data from a YAML event stream, with limits.

Tags, duplicate keys, keys that are no text, endless and exploding aliases and deep nesting are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from encamp.spec.scalars import plain_value

#: Maximum nesting depth of mappings and lists; a job needs seven levels.
MAXIMUM_DEPTH = 40
#: Maximum number of values in a document once every alias is expanded.
MAXIMUM_VALUES = 100_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "<<"


class TextError(Exception):
    """The text cannot be built; ``syntax`` tells that it is no YAML at all."""

    def __init__(self, message: str, line: int | None, hint: str | None = None, *, syntax: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint
        self.syntax = syntax


@dataclass
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    path: tuple[str | int, ...]
    anchor: str | None
    start: int
    key: str | None = None
    merging: bool = False
    merges: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Built:
    """The result of :func:`build`; see :class:`~encamp.spec.loading.Document`."""

    data: Any = None
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    written: dict[tuple[str | int, ...], str] = field(default_factory=dict)


class _Builder:
    def __init__(self) -> None:
        self.built = Built()
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.values = 0
        self.documents = 0

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise TextError("holds more than one document", line, "one job a file: drop what follows `---`")
            case yaml.AliasEvent():
                self.alias(event, line)
            case yaml.ScalarEvent():
                self.scalar(event, line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self.open(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.close(line)

    def count(self, values: int, line: int) -> None:
        self.values += values
        if self.values > MAXIMUM_VALUES:
            raise TextError(
                f"has more than {MAXIMUM_VALUES} values once its aliases are written out",
                line,
                "write the values out instead of nesting aliases",
            )

    def alias(self, event: Any, line: int) -> None:
        if event.anchor not in self.anchors:
            raise TextError(f"the alias *{event.anchor} stands for nothing that ends before it", line)
        value, size = self.anchors[event.anchor]
        self.count(size, line)
        self.add(value, line)

    def scalar(self, event: Any, line: int) -> None:
        _refuse_tag(event.tag, line)
        self.count(1, line)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.key(top, event.value, line, plain=event.implicit[0])
            return
        value = plain_value(event.value) if event.implicit[0] else event.value
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        path = self.next_path()
        self.add(value, line)
        if not isinstance(value, str):
            self.built.written[path] = event.value

    def key(self, top: _Open, text: str, line: int, *, plain: bool) -> None:
        # As in YAML itself: quoted, as JSON has it, it is a key like another.
        top.merging = plain and text == _MERGE
        if text in top.value and not top.merging:
            place = f" (first in line {self.built.lines.get((*top.path, text), '?')})"
            raise TextError(f"the key `{text}` stands twice in one mapping{place}", line, "keep one of the two")
        top.key = text
        self.built.lines[(*top.path, text)] = line

    def open(self, event: Any, line: int) -> None:
        _refuse_tag(event.tag, line)
        self.count(1, line)
        if len(self.stack) >= MAXIMUM_DEPTH:
            raise TextError(f"is nested deeper than {MAXIMUM_DEPTH} levels", line, "a job file needs about seven")
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise TextError("a mapping or list stands where a key must be", line, "a key is a plain word")
        path = self.next_path()
        if path not in self.built.lines:
            self.built.lines[path] = line
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(value, path, event.anchor, self.values))

    def close(self, line: int) -> None:
        done = self.stack.pop()
        for merged in done.merges:
            for key, value in merged.items():
                if isinstance(done.value, dict):
                    done.value.setdefault(key, value)
        if done.anchor:
            self.anchors[done.anchor] = (done.value, self.values - done.start + 1)
        self.add(done.value, line, closing=True)

    def next_path(self) -> tuple[str | int, ...]:
        if not self.stack:
            return ()
        top = self.stack[-1]
        return (*top.path, top.key if isinstance(top.value, dict) and top.key is not None else len(top.value))

    def add(self, value: Any, line: int, *, closing: bool = False) -> None:
        if not self.stack:
            self.built.data = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            if not closing:
                self.built.lines[(*top.path, len(top.value))] = line
            top.value.append(value)
        elif top.key is None:
            raise TextError("an alias stands where a key must be", line)
        elif top.merging:
            self.merge(top, value, line)
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None

    def merge(self, top: _Open, value: Any, line: int) -> None:
        for merged in value if isinstance(value, list) else [value]:
            if not isinstance(merged, dict):
                raise TextError("`<<` merges mappings only", line)
            self.count(len(merged), line)
            top.merges.append(merged)


def _refuse_tag(tag: str | None, line: int) -> None:
    if tag is not None and tag != "!":
        raise TextError(f"the tag {tag} is refused: a job file holds plain data only", line, "remove the tag")


def build(text: str) -> Built:
    """Return plain data of a YAML text with the line of every path.

    Raises:
        TextError: the text is no YAML, or beyond the limits of this module.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise TextError(f"is no YAML: {what}", mark.line + 1 if mark else None, syntax=True) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TextError(f"is no YAML: {error.reason}", line, syntax=True) from error
    except yaml.YAMLError as error:
        raise TextError(f"is no YAML: {error}", None, syntax=True) from error
    return builder.built
