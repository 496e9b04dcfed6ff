"""Pages of lists: how many, after which one, and the token that says so.

A token names the last one of its page, so that pages do not move when others are added meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.api.errors import wrong_field

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SIZE: Final = 20
LARGEST_SIZE: Final = 100
_INT32: Final = 1 << 31
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")
_LONGEST_TOKEN: Final = 400


@dataclass(frozen=True)
class Page:
    """A requested page of a list: ``size`` at most, after a place, or from the beginning."""

    size: int
    after: tuple[float, str] | None


def asked(query: Mapping[str, str], filtered: str) -> Page:
    """Return the page that a request asks for.

    Raises:
        ApiError: INVALID_ARGUMENT; a malformed size or token, or the token of another filter.
    """
    text = query.get("pageToken", "")
    return Page(_size(query.get("pageSize", "")), _place(text, filtered) if text else None)


def token(place: tuple[float, str], filtered: str) -> str:
    """Return the token of the page after a place; letters, digits, ``-`` and ``_``."""
    data = json.dumps([*place, _mark(filtered)]).encode()
    return base64.urlsafe_b64encode(_sum(data) + data).decode().rstrip("=")


def _size(text: str) -> int:
    """Return the page size: 0 is the default, and a larger one than the limit is the limit (google.aip.dev/158)."""
    if not text:
        return DEFAULT_SIZE
    if not _WHOLE.fullmatch(text) or not -_INT32 <= int(text) < _INT32:
        raise wrong_field("page_size", f"{text[:40]!r} is no whole number of 32 bits")
    if int(text) < 0:
        raise wrong_field("page_size", f"{text} is negative; write 1 to {LARGEST_SIZE}")
    return min(int(text), LARGEST_SIZE) or DEFAULT_SIZE


def _place(text: str, filtered: str) -> tuple[float, str]:
    try:
        whole = base64.b64decode(text[:_LONGEST_TOKEN] + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        data = whole[_SUM_BYTES:]
        created, job_id, mark = json.loads(data) if whole[:_SUM_BYTES] == _sum(data) else (None, None, None)
    except (ValueError, TypeError):
        created = job_id = mark = None
    if not (isinstance(created, float) and math.isfinite(created) and isinstance(job_id, str)):
        raise wrong_field("page_token", "it is no nextPageToken of this service")
    if mark != _mark(filtered):
        raise wrong_field("page_token", "it belongs to another filter: a list is read with one filter to its end")
    return created, job_id


_SUM_BYTES: Final = 6


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_SUM_BYTES]


def _mark(filtered: str) -> str:
    return hashlib.sha256(filtered.encode(errors="surrogatepass")).hexdigest()[:12]
