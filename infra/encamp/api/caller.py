"""The caller of a request, as an authenticator determines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Caller:
    """An authenticated caller.

    Attributes:
        email: as the audit log names them.
        members: the same as members of policies, in the form in which they are compared (``spec.members``):
            ``user:ana@example.com``, ``serviceAccount:…``, ``principal://…``.
        admin: whether everything is allowed: the administrator of a sandbox, or who uses the service on their own
            machine without credentials.
    """

    email: str
    members: frozenset[str]
    admin: bool = False


class Authenticator(Protocol):
    """Tells who an Authorization header stands for."""

    async def caller(self, authorization: str | None, address: str = "") -> Caller:
        """Return the caller; ``address`` is where the request came from.

        Raises:
            ApiError: UNAUTHENTICATED where there is no header, or where nobody stands behind it; UNAVAILABLE where who
                could tell does not answer; RESOURCE_EXHAUSTED where very many unknown tokens came from the address.
        """
        ...
