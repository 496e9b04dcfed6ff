"""Rules of an API for creates and updates, each with the belief that it follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.values import at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from encamp_sandbox.cloud.cloud import Cloud

_INVALID = 400
_LABEL_KEY = re.compile(r"[a-z\u00df-\u00ff][\w-]{0,62}")
_LABEL_VALUE = re.compile(r"[\w-]{0,63}")
_MAX_LABELS = 64
Problem = str | None


@dataclass(frozen=True)
class Change:
    """A create or an update that an API judges.

    Attributes:
        name: full name of the resource.
        body: the resource as it would be.
        before: as it is now; None for a create.
        given: what the caller wrote, before the server filled anything in.
    """

    cloud: Cloud
    name: str
    body: dict[str, Any]
    before: Mapping[str, Any] | None = None
    given: Mapping[str, Any] | None = None

    @property
    def project(self) -> str:
        """The project's id."""
        return self.cloud.project

    @property
    def location(self) -> str:
        """The region or zone in the resource's name."""
        parts = self.name.split("/")
        for key in ("locations", "regions", "zones"):
            if key in parts:
                return parts[parts.index(key) + 1]
        return ""

    @property
    def parent(self) -> str:
        """Full name of what the resource lies below."""
        return self.name.rsplit("/", 2)[0]

    def at(self, path: str) -> Any:
        """Return a value of the resource as it would be."""
        return at(self.body, path)


@dataclass(frozen=True)
class Rule:
    """One rule by which an API refuses a request.

    Attributes:
        belief: id of what is believed of Google.
        test: the message of the refusal, or None.
        code: HTTP status.
        reason: the older APIs' reason word, if not the usual one.
        status: the newer APIs' status name, if not the usual one.
    """

    belief: str
    test: Callable[[Change], Problem]
    code: int = _INVALID
    reason: str | None = None
    status: str | None = None

    def error(self, message: str) -> GoogleError:
        """Return the refusal."""
        return GoogleError(self.code, message, reason=self.reason, status=self.status, belief=self.belief)


def judge(rules: Iterable[Rule], change: Change) -> None:
    """Refuse a change that breaks a rule.

    Raises:
        GoogleError: what the first broken rule says.
    """
    for rule in rules:
        if message := rule.test(change):
            raise rule.error(message)


def pattern(belief: str, field: str, expression: str, message: str) -> Rule:
    """Return a rule: a text has to match from end to end; ``message`` may name the ``{value}``."""
    compiled = re.compile(expression)

    def test(change: Change) -> Problem:
        value = change.at(field)
        if value is None or (isinstance(value, str) and compiled.fullmatch(value)):
            return None
        return message.format(value=value)

    return Rule(belief, test)


def name_pattern(belief: str, expression: str, message: str) -> Rule:
    """Return a rule: the last part of the full name has to match."""
    compiled = re.compile(expression)

    def test(change: Change) -> Problem:
        value = change.name.rpartition("/")[2]
        return None if compiled.fullmatch(value) else message.format(value=value)

    return Rule(belief, test)


def choice(belief: str, field: str, choices: Sequence[str]) -> Rule:
    """Return a rule: a text is one of a few words."""

    def test(change: Change) -> Problem:
        value = change.at(field)
        if value in (None, "", *choices):
            return None
        return f"Invalid value at '{field}': \"{value}\", expected to be one of {', '.join(choices)}."

    return Rule(belief, test)


def labels(field: str = "labels") -> Rule:
    """Return a rule: at most 64 labels of lowercase letters, digits, ``_`` and ``-``, at most 63 each."""

    def test(change: Change) -> Problem:
        given = change.at(field) or {}
        if len(given) > _MAX_LABELS:
            return f"{field} holds {len(given)} labels, at most {_MAX_LABELS} are allowed"
        for name, value in given.items():
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

    return Rule("labels-are-short-and-lowercase", test)
