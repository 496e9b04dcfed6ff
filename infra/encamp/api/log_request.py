"""The request of entries:list, read and bounded.

Source: cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from encamp.api.errors import ApiError
from encamp.cloud.log_filter import FilterError, parsed
from encamp.run.times import micros
from encamp.spec.job_id import is_job_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.cloud.log_filter import Filter

_USUAL, _MOST = 50, 1000
_MOST_JOBS: Final = 20
_FIELDS: Final = {"resourceNames": list, "projectIds": list, "filter": str, "orderBy": str, "pageToken": str}
_ORDERS: Final = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}
_PLACE: Final = 3
_MICROSECONDS: Final = 26

#: An entry's place in the order of all: see ``log_entry.key_of``.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class LogRequest:
    """A request that can be answered.

    Attributes:
        jobs: ids of the jobs that the filter names, None if it names none.
        low, high: microseconds since the epoch between which the entries lie, both included.
        after: the place after which the page begins.
    """

    filter: Filter
    jobs: tuple[str, ...] | None
    low: int
    high: int
    newest_first: bool
    page_size: int
    after: Key | None

    @classmethod
    def of(cls, project: str, body: Mapping[str, Any]) -> LogRequest:
        """Return the request of a body.

        Raises:
            ApiError: INVALID_ARGUMENT where it cannot be read, PERMISSION_DENIED for another project.
        """
        _check(body)
        _check_project(project, body)
        try:
            wanted = parsed(body.get("filter") or "")
        except FilterError as error:
            raise _invalid(str(error)) from error
        order = " ".join(str(body.get("orderBy") or "").split())
        if order not in _ORDERS:
            raise _invalid('orderBy has to be "timestamp asc" or "timestamp desc"')
        low, high = (_micros(text) for text in wanted.span())
        after = _place(body["pageToken"]) if body.get("pageToken") else None
        if after is not None:
            low, high = (low, min(high, _micros(after[0]))) if _ORDERS[order] else (max(low, _micros(after[0])), high)
        return cls(wanted, _jobs(wanted), low, high, _ORDERS[order], _page_size(body.get("pageSize")), after)

    def follows(self, key: Key) -> bool:
        """Whether an entry comes after the place where the page begins."""
        if self.after is None:
            return True
        return key < self.after if self.newest_first else key > self.after


def page_token(key: Key) -> str:
    """Return the token of the page that begins after a place."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _place(token: str) -> Key:
    try:
        found = json.loads(base64.urlsafe_b64decode(token.encode()))
        if isinstance(found, list) and len(found) == _PLACE and all(isinstance(part, str) for part in found):
            _micros(found[0])
            return found[0], found[1], found[2]
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise _invalid("The pageToken is none that was given out here.")


def _jobs(wanted: Filter) -> tuple[str, ...] | None:
    named = wanted.texts("resource.labels.job_id")
    if named is None:
        return None
    if len(named) > _MOST_JOBS:
        raise _invalid(f"The filter names more than {_MOST_JOBS} jobs.")
    # A text that is no id names no job.
    return tuple(sorted(filter(is_job_id, named)))


def _check(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name == "pageSize":
            continue
        if name not in _FIELDS:
            raise _invalid(f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot find field.')
        if value is not None and not isinstance(value, _FIELDS[name]):
            raise _invalid(f"Invalid value at '{name}'.")


def _check_project(project: str, body: Mapping[str, Any]) -> None:
    names = [*(body.get("resourceNames") or ()), *(f"projects/{one}" for one in body.get("projectIds") or ())]
    if not names:
        raise _invalid(f'resourceNames is missing; try: ["projects/{project}"]')
    if any(name != f"projects/{project}" for name in names):
        raise ApiError("PERMISSION_DENIED", f"Only the entries of projects/{project} are served here.")


def _page_size(value: Any) -> int:
    """Return the page size of an int32 in JSON: a number, or its text."""
    try:
        size = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    except ValueError:
        size = None
    if value is None:
        return _USUAL
    if size is None or size < 0:
        raise _invalid("pageSize has to be a number from 1 to 1000.")
    return min(size or _USUAL, _MOST)


def _micros(text: str) -> int:
    return micros(datetime.fromisoformat(f"{text[:_MICROSECONDS].removesuffix('Z')}+00:00")) if text else 0


def _invalid(message: str) -> ApiError:
    return ApiError("INVALID_ARGUMENT", message)
