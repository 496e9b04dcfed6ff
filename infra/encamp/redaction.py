"""Secrets that a text shows by its form, made unreadable: signatures of signed URLs, passwords in URLs, tokens, keys.

What is secret by a mark alone (``pulumi config set --secret``) has no form; whoever has the mark passes the values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Data = TypeVar("Data")

MASK = "[secret]"
#: Parameters of a query that let whoever reads them do something: signed URLs of Cloud Storage (V4 and V2), S3 and
#: Azure, upload sessions, tokens and passwords.
_PARAMETERS = (
    "x-goog-signature|x-goog-credential|x-goog-security-token|x-amz-signature|x-amz-credential|x-amz-security-token|"
    "signature|sig|upload_id|access_token|id_token|refresh_token|token|api_?key|password|passwd|pwd|secret"
)
_FORMS = (
    (re.compile(rf"([?&;](?:{_PARAMETERS})=)[^&;\s\"'<>\\]+", re.IGNORECASE), rf"\1{MASK}"),
    # A scheme has a longest length: without, every letter of a long word would be the beginning of one.
    (re.compile(r"([a-z][a-z0-9+.-]{0,30}://[^/\s:@\"']*:)[^@\s\"'/]+@", re.IGNORECASE), rf"\1{MASK}@"),
    (re.compile(r"(\bBearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"\bya29\.[A-Za-z0-9._-]+"), MASK),
    # A JSON Web Token begins with the base64 of '{"'.
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL), MASK),
)
#: Whatever has one of the forms has one of these; most texts have none.
_MARKS = re.compile(r"[?&;]|://|Bearer|ya29\.|eyJ|-----BEGIN")
#: Shorter values would be found in every other word.
_SHORTEST = 6


def redacted(text: str, values: Iterable[str] = ()) -> str:
    """Return a text in which neither secrets of a known form nor the values are to be read."""
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, MASK)
    if _MARKS.search(text) is None:
        return text
    for form, shown in _FORMS:
        text = form.sub(shown, text)
    return text


def redacted_data(data: Data) -> Data:
    """Return JSON data, tuples allowed, without secrets of a known form."""
    found: Any = data
    if isinstance(data, str):
        found = redacted(data)
    elif isinstance(data, dict):
        found = {key: redacted_data(value) for key, value in data.items()}
    elif isinstance(data, (list, tuple)):
        found = type(data)(redacted_data(value) for value in data)
    return cast("Data", found)


def holds_secret(data: Any) -> bool:
    """Whether JSON data holds a secret of a known form."""
    return any(redacted(text) != text for text in texts(data))


def texts(data: Any) -> Iterator[str]:
    """Yield every text among JSON data; keys are not meant."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from texts(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from texts(value)
