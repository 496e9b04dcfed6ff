"""Members of policies as IAM writes them, and the one form in which they are compared.

E-mails are ASCII and compared whatever their case, by ASCII's rules alone (belief ``iam-emails-compare-without-case``).
Unicode's rules would make somebody else of ``K`` (the Kelvin sign) or ``ß``, so an e-mail with such a letter is none.
Names of federated people are compared as they are.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN: Final = rf"(?:{_LABEL}\.)+{_LABEL}"
_ATOM: Final = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
#: A part before the @ of RFC 5321, without quotes.
_EMAIL: Final = re.compile(rf"(?=.{{1,128}}@)(?=.{{1,320}}\Z){_ATOM}(?:\.{_ATOM})*@(?=.{{1,253}}\Z){_DOMAIN}")
_WHOLE_DOMAIN: Final = re.compile(rf"(?=.{{1,253}}\Z){_DOMAIN}")
_FEDERATED: Final = re.compile(
    r"principal://iam\.googleapis\.com/locations/global/workforcePools/[^/\s]{1,63}/subject/[^\s\x00-\x1f\x7f]{1,255}"
)
_KINDS: Final = ("user", "group", "serviceAccount")
_SERVICE_ACCOUNT: Final = ".gserviceaccount.com"


def canonical_email(text: str) -> str | None:
    """Return an e-mail in lower case, None for what is none."""
    if not text.isascii():
        return None
    lower = text.lower()
    return lower if _EMAIL.fullmatch(lower) else None


def canonical_domain(text: str) -> str | None:
    """Return a domain in lower case, None for what is none; names in other scripts are written in punycode."""
    if not text.isascii():
        return None
    lower = text.lower()
    return lower if _WHOLE_DOMAIN.fullmatch(lower) else None


def domain_of(email: str) -> str:
    """Return the domain of a canonical e-mail."""
    return email.rpartition("@")[2]


def canonical(member: str) -> str | None:
    """Return a person, group, service account or federated person as they are compared.

    None for what is none of these.
    """
    kind, colon, rest = member.partition(":")
    if kind == "principal":
        return member if _FEDERATED.fullmatch(member) else None
    email = canonical_email(rest) if colon and kind in _KINDS else None
    return f"{kind}:{email}" if email is not None else None


def is_service_account(email: str) -> bool:
    """Whether a canonical e-mail is of one of Google's service accounts."""
    return domain_of(email).endswith(_SERVICE_ACCOUNT) or domain_of(email) == _SERVICE_ACCOUNT[1:]


def members_of(name: str) -> frozenset[str]:
    """Return the members that somebody may be who is written down without a kind; empty for what is no name."""
    found = canonical(name)
    if found is not None:
        return frozenset({found})
    email = canonical_email(name)
    return frozenset() if email is None else frozenset({f"user:{email}", f"serviceAccount:{email}"})
