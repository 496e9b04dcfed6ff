"""The events of a preview as plain data: which resource would be created, changed, replaced or deleted, and how."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from encamp.ci.hidden_outputs import SIGNATURE
from encamp.property_paths import parse_path, path_text
from encamp.redaction import MASK, redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pulumi.automation import EngineEvent

    from encamp.property_paths import Path

#: The engine's mark for a value that only the cloud will tell.
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
#: Notes of providers among a resource's inputs.
_ENGINES_OWN = ("__defaults", "__name")
_COLOURS = re.compile(r"<\{%[^%]*%\}>")


class Does(StrEnum):
    """The effect of a step on a resource."""

    MAKES = "made"
    CHANGES = "changed"
    REPLACES = "replaced"
    DESTROYS = "destroyed"


#: The engine's words; a replacement is told by up to three of them.
_DOES = {
    "create": Does.MAKES,
    "import": Does.MAKES,
    "update": Does.CHANGES,
    "replace": Does.REPLACES,
    "create-replacement": Does.REPLACES,
    "delete-replaced": Does.REPLACES,
    "import-replacement": Does.REPLACES,
    "delete": Does.DESTROYS,
}
_STAYS = {"same", "read"}


@dataclass(frozen=True)
class Difference:
    """A property that differs.

    Attributes:
        path: as the engine writes it, such as ``nodeConfig.machineType``.
        old: the value before as JSON, None if there was none.
        new: the value after as JSON, or None.
        replaces: whether it is why the resource is replaced.
    """

    path: str
    old: str | None
    new: str | None
    replaces: bool


@dataclass(frozen=True)
class Step:
    """The step of one resource.

    Attributes:
        does: made, changed, replaced or destroyed.
        type: the engine's type token.
        name: the logical name.
        differences: what differs, empty for what is made or destroyed.
        content: of what is made, each input by its path with its value as JSON; secrets are hidden.
        protected: the engine refuses to destroy it.
        kept: it leaves the state and stays in the cloud.
    """

    does: Does
    type: str
    name: str
    differences: tuple[Difference, ...] = ()
    content: tuple[tuple[str, str], ...] = ()
    protected: bool = False
    kept: bool = False


class Steps:
    """Takes the events of one preview; the engine may call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Step] = {}
        self._same: set[str] = set()
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def __call__(self, event: EngineEvent) -> None:
        """Take one event."""
        with self._lock:
            if event.resource_pre_event is not None:
                self._resource(event.resource_pre_event.metadata)
            elif event.diagnostic_event is not None:
                self._said(event.diagnostic_event)

    def steps(self) -> list[Step]:
        """Return the steps, one for a resource."""
        return list(self._found.values())

    @property
    def unchanged(self) -> int:
        """The number of resources that would stay as they are."""
        return len(self._same - self._found.keys())

    def _resource(self, metadata: Any) -> None:
        # Components and the engine's own are in its state only; a component's state has no provider.
        if metadata.type.startswith("pulumi:") or not (metadata.provider or _custom(metadata)):
            return
        operation = str(getattr(metadata.op, "value", metadata.op))
        if operation in _STAYS:
            self._same.add(metadata.urn)
        does = _DOES.get(operation)
        if does is None:
            return
        known = self._found.get(metadata.urn)
        differences = tuple(_differences(metadata)) if does in (Does.CHANGES, Does.REPLACES) else ()
        self._found[metadata.urn] = Step(
            does=does,
            type=metadata.type,
            name=metadata.urn.rpartition("::")[2],
            differences=differences or (known.differences if known is not None else ()),
            content=tuple(_content(getattr(metadata.new, "inputs", None) or {})) if does is Does.MAKES else (),
            protected=bool(getattr(metadata.old, "protect", False)),
            kept=does is Does.DESTROYS and bool(getattr(metadata.old, "retain_on_delete", False)),
        )

    def _said(self, diagnostic: Any) -> None:
        text = redacted(_COLOURS.sub("", diagnostic.message).strip())
        name = (diagnostic.urn or "").rpartition("::")[2]
        if diagnostic.severity == "error":
            self.errors.append(f"{name}: {text}" if name else text)
        elif diagnostic.severity == "warning":
            self.warnings.append(text)


def _custom(metadata: Any) -> bool:
    state = metadata.new or metadata.old
    return bool(state is not None and state.custom)


def _differences(metadata: Any) -> Iterator[Difference]:
    old = dict(getattr(metadata.old, "inputs", None) or {})
    new = dict(getattr(metadata.new, "inputs", None) or {})
    forcing = set(metadata.keys or ())
    detailed: Mapping[str, Any] = metadata.detailed_diff or {}
    kinds = {path: str(getattr(one.diff_kind, "value", one.diff_kind)) for path, one in detailed.items()}
    for path in sorted(kinds) or sorted(metadata.diffs or ()):
        yield Difference(
            path=path,
            old=_text(_at(old, path)),
            new=_text(_at(new, path)),
            replaces=kinds.get(path, "").endswith("-replace") or bool({path, _top(path)} & forcing),
        )


def _content(value: Any, at: Path = ()) -> Iterator[tuple[str, str]]:
    """Yield every input of a new resource; lists of plain values stay together, the engine's own keys are left out."""
    if isinstance(value, dict) and value and not _is_secret(value):
        for key in sorted(key for key in value if key not in _ENGINES_OWN):
            yield from _content(value[key], (*at, key))
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for index, item in enumerate(value):
            yield from _content(item, (*at, index))
    elif at and value is not None:
        yield path_text(at), _text(value) or ""


def _top(path: str) -> str:
    return next((str(key) for key in parse_path(path)), path)


def _at(data: Any, path: str) -> Any:
    for key in parse_path(path):
        if _is_secret(data):
            return data
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if value == _UNKNOWN:
        return "known once it exists"
    return redacted(json.dumps(_masked(value), ensure_ascii=False, sort_keys=True))


def _is_secret(value: Any) -> bool:
    """Whether it is what the engine writes for a secret: its own mark, and no value."""
    return isinstance(value, dict) and SIGNATURE in value


def _masked(value: Any) -> Any:
    if _is_secret(value):
        return MASK
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value
