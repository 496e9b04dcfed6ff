"""The engine's events as steps: which resource was created or deleted when, and the lines to show for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.duration import Duration
from encamp.redaction import redacted
from encamp.run.detail import Detail
from encamp.run.engine.unanswered import Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pulumi.automation import EngineEvent

_MAKING = {"create": "creating", "create-replacement": "creating", "replace": "replacing", "update": "updating"}
_TAKING = {"delete": "deleting", "delete-replaced": "deleting", "discard": "forgetting"}
_DONE = {"creating": "created", "replacing": "replaced", "updating": "updated", "deleting": "deleted"}
_ENGINE_TYPES = ("pulumi:",)
_MOST_FAILURES = 20
_LONGEST_SHOWN_ID = 80
#: Words for what was done, in the order of a summary.
_SUMMED = {
    "created": "made", "replaced": "replaced", "updated": "updated", "deleted": "deleted", "kept": "kept",
    "forgetting": "forgotten", "failed": "failed",
}  # fmt: skip


@dataclass(frozen=True)
class ResourceStep:
    """A step that the engine took on one resource.

    Attributes:
        done: created, updated, replaced, deleted, kept (it left the state and stays in the cloud) or failed.
        type: the engine's type token.
        name: the logical name.
        id: the cloud's id, or empty.
    """

    at: datetime
    done: str
    type: str
    name: str
    urn: str
    id: str

    def to_json(self) -> dict[str, str]:
        """Return plain data for the journal and the receipt."""
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "done": self.done,
            "type": self.type,
            "name": self.name,
            "urn": self.urn,
            "id": self.id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> ResourceStep:
        """Return the step that ``to_json`` wrote."""
        return cls(
            datetime.fromisoformat(data["at"]), data["done"], data["type"], data["name"], data["urn"], data["id"]
        )


@dataclass(frozen=True)
class OpenStep:
    """A step that the engine has begun and not ended.

    Attributes:
        doing: such as ``creating``.
        type: the engine's type token.
        since: when it began, by ``time.monotonic``.
    """

    doing: str
    type: str
    name: str
    since: float

    def __str__(self) -> str:
        return f"{self.doing} {_words(self.type)} {self.name}"


@dataclass(frozen=True)
class Failure:
    """The engine's message about a failed operation.

    ``name`` is the resource's logical name, empty for the whole run.
    """

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.name else self.message


class EventLog:
    """Takes the events of one engine run; the engine may call from any thread.

    Args:
        show: gets a line for people for each step, a ``Detail``, and each warning.
        keep: gets each step that is done.

    Attributes:
        steps: what was done.
        failures: what went wrong, the first twenty.
        unanswered: creates that failed, and may have been done all the same.
        last: when the last event came, in seconds of ``time.monotonic``.
    """

    def __init__(self, show: Callable[[str], None], keep: Callable[[ResourceStep], None] | None = None) -> None:
        self._show = show
        self._keep = keep
        self._lock = threading.Lock()
        self._open: dict[str, OpenStep] = {}
        self.steps: list[ResourceStep] = []
        self.failures: list[Failure] = []
        self.unanswered: list[Unanswered] = []
        self.last = self._begun_at = time.monotonic()

    def __call__(self, event: EngineEvent) -> None:
        """Take one event."""
        with self._lock:
            self.last = time.monotonic()
            if event.resource_pre_event is not None:
                self._begun(event.resource_pre_event.metadata)
            elif event.res_outputs_event is not None:
                self._ended(event.res_outputs_event.metadata, failed=False)
            elif event.res_op_failed_event is not None:
                self._ended(event.res_op_failed_event.metadata, failed=True)
            elif event.diagnostic_event is not None:
                self._said(event.diagnostic_event)

    def open_steps(self) -> list[OpenStep]:
        """List the steps that have begun and not ended, the oldest first."""
        with self._lock:
            return sorted(self._open.values(), key=lambda step: step.since)

    def say_summary(self) -> None:
        """Show how many resources were made or deleted since the beginning; nothing if none was."""
        with self._lock:
            counts = Counter(step.done for step in self.steps)
        parts = [f"{counts[done]} {word}" for done, word in _SUMMED.items() if counts[done]]
        if parts:
            first, *more = parts
            number, word = first.split(" ", 1)
            noun = "resource" if number == "1" else "resources"
            took = Duration.of(round(time.monotonic() - self._begun_at)).words
            self._show(f"{', '.join([f'{number} {noun} {word}', *more])} in {took}")

    def note(self, failure: Failure) -> None:
        """Add what is known of the run from elsewhere."""
        with self._lock:
            self.failures.append(failure)

    def _begun(self, metadata: Any) -> None:
        doing = _doing(metadata)
        if doing is None or metadata.type.startswith(_ENGINE_TYPES) or _is_component(metadata):
            return
        if not (doing == "deleting" and _stays(metadata)):
            step = OpenStep(doing, metadata.type, _name(metadata.urn), time.monotonic())
            self._open[metadata.urn] = step
            self._show(Detail(step))

    def _ended(self, metadata: Any, *, failed: bool) -> None:
        doing = _doing(metadata)
        if doing is None or metadata.type.startswith(_ENGINE_TYPES) or _is_component(metadata):
            return
        self._open.pop(metadata.urn, None)
        done = "failed" if failed else _DONE.get(doing, doing)
        if done == "deleted" and _stays(metadata):
            done = "kept"
        state = metadata.new or metadata.old
        if failed and doing in ("creating", "replacing") and metadata.new is not None:
            self.unanswered.append(Unanswered.of(metadata.type, metadata.urn, metadata.new.inputs or {}))
        step = ResourceStep(
            at=datetime.now(UTC),
            done=done,
            type=metadata.type,
            name=_name(metadata.urn),
            urn=metadata.urn,
            id=(getattr(state, "id", "") or "") if state is not None else "",
        )
        self.steps.append(step)
        if self._keep is not None:
            self._keep(step)
        # The id of a binding is a sentence of its own; the record has it.
        known = f" ({step.id})" if step.id and len(step.id) <= _LONGEST_SHOWN_ID else ""
        self._show(Detail(f"{done} {_words(step.type)} {step.name}{known}"))

    def _said(self, diagnostic: Any) -> None:
        if diagnostic.severity == "error" and len(self.failures) < _MOST_FAILURES:
            self.failures.append(Failure(_name(diagnostic.urn), _plain(diagnostic.message)))
        elif diagnostic.severity == "warning":
            self._show(f"warning: {_plain(diagnostic.message)}")


def _doing(metadata: Any) -> str | None:
    operation = str(getattr(metadata.op, "value", metadata.op))
    return _MAKING.get(operation) or _TAKING.get(operation)


def _stays(metadata: Any) -> bool:
    """Whether a resource that leaves the state is not deleted (``retain_on_delete``)."""
    return bool(getattr(metadata.old, "retain_on_delete", False))


def _is_component(metadata: Any) -> bool:
    """Whether a step is about a component: it exists in the state only."""
    return metadata.type.startswith("encamp:") or metadata.type == "pulumi:pulumi:Stack"


def _name(urn: str | None) -> str:
    return (urn or "").rpartition("::")[2]


def _words(token: str) -> str:
    """Return ``gcp:container/nodePool:NodePool`` as ``container NodePool``."""
    parts = token.split(":")
    module = parts[1].partition("/")[0] if len(parts) > 1 else ""
    return f"{module} {parts[-1]}".strip()


def _plain(message: str) -> str:
    """Return text without the engine's colour directives, and without secrets that a provider quotes."""
    import re  # noqa: PLC0415 - errors are rare

    return redacted(re.sub(r"<\{%[^%]*%\}>", "", message).strip())
