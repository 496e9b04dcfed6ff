"""One comparison of a filter: a field of a Job resource with a value, each read by the field's kind."""

from __future__ import annotations

import operator
import re
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic.alias_generators import to_camel

from encamp.run.store.states import State
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FIELDS: Final = frozenset(
    {
        "jobId", "labels", "state", "createTime", "startTime", "endTime", "errorMessage", "jobPosition", "etag",
        "trainingInput", "trainingOutput", "encamp",
    }
)  # fmt: skip
_TIMES: Final = frozenset({"createTime", "startTime", "endTime"})
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?")
_PART = re.compile(r"[^.]+")


class Comparison(Protocol):
    """Says of a Job resource whether its field is as asked for."""

    def __call__(self, job: Mapping[str, Any], /) -> bool:
        """Whether the job is meant."""
        ...


def comparison(field: str, sign: str, value: str) -> Comparison:
    """Return the comparison of a field with a value.

    Args:
        field: path in camelCase or snake_case, such as ``trainingInput.region`` or ``labels.team``.
        sign: one of = != < <= > >= and ``:``.
        value: as written, without quotes.

    Raises:
        ValueError: there is no such field, or it cannot be compared so; the message says how it can.
    """
    path = _path(field)
    if path[0] == "labels" and len(path) == 1:
        return _label_key(sign, value)
    if path == ("state",):
        _known_state(sign, value)
    holds = _test(path, sign, value)
    if len(path) == 1:
        (name,) = path
        return lambda job: name in job and holds(job[name])
    return lambda job: any(holds(found) for found in _values(job, path))


def _path(field: str) -> tuple[str, ...]:
    parts = _PART.findall(field)
    if not parts or ".".join(parts) != field:
        raise ValueError(f"{field!r} is no field")
    first = to_camel(parts[0]) if "_" in parts[0] else parts[0]
    if first not in _FIELDS:
        close = nearest(first, _FIELDS)
        raise ValueError(f"{parts[0]!r} is no field of a job; {f'write {close}' if close else 'known: ' + _known()}")
    if first == "labels":
        # A label's key is one part, whatever is in it.
        return ("labels", ".".join(parts[1:])) if len(parts) > 1 else ("labels",)
    return (first, *(to_camel(part) if "_" in part else part for part in parts[1:]))


def _known() -> str:
    return ", ".join(sorted(_FIELDS))


def _known_state(sign: str, value: str) -> None:
    if sign in _ORDERS:
        raise ValueError("states have no order; compare them by : or =")
    if "*" not in value and value.upper() not in set(State):
        raise ValueError(f"{value!r} is no state; known: {', '.join(State)}")


def _label_key(sign: str, value: str) -> Comparison:
    if sign != ":":
        raise ValueError("write labels.KEY=VALUE, or labels:KEY for jobs that have the label")
    matches = _glob(value)
    return lambda job: any(matches(key) for key in job.get("labels") or {})


def _test(path: tuple[str, ...], sign: str, value: str) -> Callable[[Any], bool]:
    """Return the test of a found value."""
    if path[0] in _TIMES:
        return _time_test(sign, value)
    if sign in _ORDERS:
        return _order_test(sign, value)
    matches = _glob(value, contains=sign == ":" and path != ("state",))
    if sign == "!=":
        return lambda found: not matches(_text(found))
    return lambda found: matches(_text(found))


def _time_test(sign: str, value: str) -> Callable[[Any], bool]:
    if sign == ":" and value == "*":
        return bool
    wanted = _time(value)
    compare = _ORDERS.get(sign, operator.ne if sign == "!=" else operator.eq)
    return lambda found: compare(datetime.fromisoformat(found), wanted)


def _time(text: str) -> datetime:
    """Return the time of an RFC 3339 text, or of a day, which stands for its first moment in UTC."""
    try:
        if len(text) == len("2022-01-01"):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{text[:40]!r} is no time; such as 2022-01-31T12:00:00Z, or 2022-01-31")
    return found


def _order_test(sign: str, value: str) -> Callable[[Any], bool]:
    """Return numbers by size; what is no number by its letters."""
    compare, number = _ORDERS[sign], _number(value)

    def holds(found: Any) -> bool:
        size = _number(found)
        if number is not None and size is not None:
            return compare(size, number)
        return number is None and isinstance(found, str) and compare(found, value)

    return holds


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def _values(job: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return the values at a path; where a list stands on it, those of every element."""
    found: list[Any] = [job]
    for part in path:
        inner = [one.get(part) for one in found if isinstance(one, dict)]
        found = [value for one in inner for value in (one if isinstance(one, list) else [one]) if value is not None]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if isinstance(value, (dict, list)) else str(value)


def _glob(pattern: str, *, contains: bool = False) -> Callable[[str], bool]:
    """Whether a text is as a pattern with ``*`` says, whatever its case; in time that grows with both alone.

    ``contains``: a pattern without ``*`` may be any part of the text.
    """
    pieces = pattern.casefold().split("*")
    if len(pieces) == 1:
        wanted = pieces[0]
        return (lambda text: wanted in text.casefold()) if contains else (lambda text: text.casefold() == wanted)
    first, *middle, last = pieces

    def matches(text: str) -> bool:
        text = text.casefold()
        at, end = len(first), len(text) - len(last)
        if at > end or not (text.startswith(first) and text.endswith(last)):
            return False
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    return matches
