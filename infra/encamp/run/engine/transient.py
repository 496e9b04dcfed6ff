"""Tells errors of an engine run that may pass from those that stay.

What a provider says of a failed operation reaches a driver as text only: Google's errors in the words of its Go
client (``googleapi: Error 503: …, backendError``), Kubernetes' in the API server's, and what the engine says of a
provider or program that died. The rules are those of the official provider's own retries (terraform-provider-google,
``transport/error_retry_predicates.go``) and a few more. What is not known to pass is final.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

#: Statuses after which the same request may succeed (belief ``fault-transient-statuses``).
_STATUSES = frozenset({"408", "429", "500", "502", "503", "504"})
#: Likewise of google.rpc.Code, with which operations end: deadline exceeded, aborted, internal, unavailable.
_CODES = frozenset({"4", "10", "13", "14"})
_STATUS = re.compile(
    r"(?:googleapi: Error |got HTTP response code |status code |http status: |error code:? |\berror: )([45]\d\d)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"\bError code (\d{1,2}), message\b")
#: Final whatever the status says: there are no such machines now (``fault-stockout-is-final``), or the project may
#: have no more of something (``fault-quota-is-final``).
_FINAL = re.compile(
    r"ZONE_RESOURCE_POOL_EXHAUSTED|GCE_STOCKOUT|does not have enough resources available|insufficientCapacity"
    r"|quotaExceeded|QUOTA_EXCEEDED|Insufficient \w+ quota|quota .*exceeded\. +Limit",
    re.IGNORECASE,
)
#: Rates, which some services refuse with a 403 and the words of a quota (``fault-rate-as-403``).
_RATE = re.compile(
    r"rateLimitExceeded|RATE_LIMIT_EXCEEDED|per minute|too many requests|exceeded rate limits"
    r"|CONCURRENT_OPERATIONS_QUOTA_EXCEEDED",
    re.IGNORECASE,
)
_PASSING_WORDS = (
    # One operation at a time (``fault-one-operation-on-a-cluster``), and policies that several write
    # (``fault-concurrent-policy-changes``).
    r"incompatible operation",
    r"Operation \S+ is currently",
    r"operation ?in ?progress",
    r"is already in progress",
    r"resourceNotReady",
    r"concurrent policy changes",
    r"try again (?:later|once)|please (?:try again|retry)",
    r"the object has been modified",
    # Networks, and servers that restart.
    r"connection re(?:fused|set)",
    r"broken pipe",
    r"\bEOF\b",
    r"\bi/o timeout",
    r"(?:TLS )?handshake timeout",
    r"timed out",
    r"deadline exceeded",
    r"Client\.Timeout exceeded",
    r"network is unreachable",
    r"temporary failure in name resolution|no such host",
    r"http2: client connection (?:lost|force closed)",
    r"server sent GOAWAY",
    r"no usable answer",
    r"does not answer|gives no answer",
    r"cluster is (?:currently )?unreachable",
    r"currently unable to handle the request",
    r"unable to return a response in the time allotted",
    r"etcdserver: |leader changed",
    r"Internal error occurred",
    r"failed calling webhook",
    # Providers and programs that died in the middle.
    r"code = (?:Unavailable|Canceled|Aborted)\b",
    r"transport is closing|error reading from server",
    r"plugin .*exited|could not connect to plugin|has not configured the provider",
    r"was killed",
)
_PASSING = re.compile("|".join(_PASSING_WORDS), re.IGNORECASE)
_ALREADY = re.compile(r"\balready ?exists|\bError 409\b.*\b(?:alreadyExists|conflict|duplicate)", re.IGNORECASE)
#: New accounts are not seen everywhere at once (``fault-new-accounts-unseen``).
_NOT_YET = re.compile(r"does not exist|not found|notFound|\bError 404\b|or it may not exist", re.IGNORECASE)


def is_transient(message: str) -> bool:
    """Whether what a message tells of may pass."""
    if _RATE.search(message):
        return True
    if _FINAL.search(message):
        return False
    statuses = _STATUS.findall(message)
    codes = _CODE.findall(message)
    if _STATUSES.intersection(statuses) or _CODES.intersection(codes):
        return True
    return _PASSING.search(message) is not None


def is_existing(message: str) -> bool:
    """Whether a create was refused because the thing is there already."""
    return _ALREADY.search(message) is not None


def is_not_seen_yet(message: str, made: Collection[str]) -> bool:
    """Whether something is said to be missing that was made a moment ago.

    ``made`` holds what the cloud calls the things: names, ids, e-mails.
    """
    return _NOT_YET.search(message) is not None and any(name in message for name in made)
