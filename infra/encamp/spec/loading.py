"""Safe reading of a YAML or JSON file that someone wrote.

Builds plain data from the parser's events, one pass, without recursion: nothing in a file can run code, expand without
bound or exhaust the stack. Keeps the line of every path and the written form of every plain scalar. Whatever is wrong
with the file as a text ends in a :class:`~encamp.errors.SpecError`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from encamp.errors import Problem, SpecError, UsageError
from encamp.spec.building import TextError, build

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: A path inside a document: keys and list indices.
DataPath = tuple[str | int, ...]

#: The largest file that is read, in bytes. The largest real job file known has a few KiB.
MAXIMUM_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Document:
    """A file's content.

    Attributes:
        source: the file's name as the user gave it, or what else the text is.
        data: mappings, lists, strings, numbers, booleans and None.
        lines: 1-based line of every path that the text spells out.
        written: how a plain scalar that is no string stands in the text, by its path.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[DataPath, int] = field(default_factory=dict)
    written: Mapping[DataPath, str] = field(default_factory=dict)

    def line(self, path: DataPath) -> int | None:
        """Return the line of a path, or of the nearest place above it that the text spells out."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def load_document(path: Path, *, source: str | None = None) -> Document:
    """Read a file.

    Args:
        path: the file.
        source: what to call it in messages; its path when absent.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        SpecError: it is no mapping in YAML or JSON, or is one of the texts that are refused.
    """
    name = source or str(path)
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "there is no such file"
            raise UsageError(what, where=name, hint="name a job file in YAML or JSON")
        size = path.stat().st_size
        if size > MAXIMUM_BYTES:
            _refuse(name, f"the file has {size} bytes; at most {MAXIMUM_BYTES} are read", None, "is it the job file?")
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=name) from error
    return parse_document(content, source=name)


def parse_document(content: bytes, *, source: str) -> Document:
    """Read a text; see :func:`load_document`."""
    if len(content) > MAXIMUM_BYTES:
        _refuse(source, f"the text has {len(content)} bytes; at most {MAXIMUM_BYTES} are read", None)
    text = _decode(content, source)
    try:
        built = build(text)
    except TextError as error:
        if error.syntax and text.lstrip().startswith("{"):
            return Document(source, _mapping(_json(text, source), source))
        _refuse(source, error.message, error.line, error.hint)
    return Document(source, _mapping(built.data, source), built.lines, built.written)


def _decode(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        _refuse(source, f"is no UTF-8 text (byte {error.start} is 0x{content[error.start]:02x})", line, "save as UTF-8")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        _refuse(source, "holds a NUL character, so it is no text file", line, "is it the job file?")
    if not text.strip():
        _refuse(source, "the file is empty", None, "start from examples/digits/job.yaml")
    return text


def _json(text: str, source: str) -> Any:
    """Read JSON that is no YAML, such as one with escaped surrogate pairs."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                _refuse(source, f"the key `{key}` stands twice in one object", None, "keep one of the two")
            found[key] = value
        return found

    line = None
    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        message, line = f"is neither YAML nor JSON: {error.msg}", error.lineno
    except RecursionError:
        message = "is nested too deeply"
    except ValueError as error:
        message = f"is neither YAML nor JSON: {error}"
    return _refuse(source, message, line)


def _mapping(data: Any, source: str) -> dict[str, Any]:
    if isinstance(data, dict):
        return data
    kind = {list: "a list", str: "a text", type(None): "empty"}.get(type(data), "a single value")
    return _refuse(source, f"the file is {kind} at its top; it must be a mapping", 1, "begin with `trainingInput:`")


def _refuse(source: str, message: str, line: int | None, hint: str | None = None) -> NoReturn:
    raise SpecError(source, [Problem("", line, None, message, hint)])
