"""Which end of a job is right, and which log is lost: rules, not lists of cases.

An outcome is right when one of these says so, the first that applies:

1. What was refused for good while it was brought up (a right, a quota, machines) fails the job: FAILED.
2. A job whose driver died before there was a JobSet has not trained: FAILED.
3. Everything else trains to its end, whoever dies and whatever is answered wrongly on the way: faults that pass are
   waited for, and a JobSet trains with or without a driver. The trainer's own outcome.

What the driver has said stays: an outcome that was announced is the job's, whoever dies after. Nobody asks for a
cancel, and no deadline passes: CANCELLED is never right. A job of which nothing was asked of any cloud when its driver
died, or gave up in words because a server was down, has no end at all.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.listing import kept, stored

if TYPE_CHECKING:
    from harness.front import Front

_ANNOUNCED = re.compile(r"the job is (SUCCEEDED|FAILED|CANCELLED)")
SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"


@dataclass(frozen=True)
class Evidence:
    """What was seen of a job.

    Attributes:
        said: what its driver had said when it ended or was killed.
        asked: what was asked of clouds about it, in the form of the faults' strikes.
        succeeds: whether its trainer is one that succeeds.
        disturbed: whether a server was killed or gave a wrong answer before its driver announced an outcome.
        driver_killed: whether its driver was.
        refused: whether a create of it was refused for good.
        logged: whether a replica's log was sealed.
    """

    said: str
    asked: list[dict[str, Any]]
    succeeds: bool
    disturbed: bool
    driver_killed: bool
    refused: bool = False
    logged: bool = False

    @property
    def announced(self) -> str | None:
        """The outcome that the driver has said, None where it had not come to it."""
        found = _ANNOUNCED.search(self.said)
        return found[1] if found else None

    @property
    def begun(self) -> bool:
        """Whether anything was to be made for it."""
        return any(one["operation"] == "create" for one in self.asked)

    @property
    def trained(self) -> bool:
        """Whether a JobSet was asked for. What the official kubernetes plugin asks for is not noted: logs tell it."""
        made = any(one["operation"] == "create" and one["type"].endswith(":JobSet") for one in self.asked)
        return made or self.logged

    @property
    def endless(self) -> bool:
        """Whether it needs no end: it had not begun when its driver died, or gave up in words for want of a server."""
        gave_up = self.disturbed and "error:" in self.said and "Traceback" not in self.said
        return not self.begun and (self.driver_killed or gave_up)

    @property
    def excused(self) -> bool:
        """Whether it may have failed without training: it was refused something, or lost its driver before."""
        return self.refused or (self.driver_killed and not self.trained)

    def right(self) -> str:
        """The outcome that is right."""
        return SUCCEEDED if self.succeeds and not self.excused else FAILED


def wrong_outcome(evidence: Evidence, receipt: dict[str, Any] | None) -> str:
    """What is wrong with the outcome that the receipt tells, empty where it is right."""
    if receipt is None:
        return "" if evidence.endless else "it has no receipt"
    found, right = receipt["outcome"]["state"], evidence.right()
    if found != right:
        return f"{found} ({receipt['outcome'].get('message', '')}), right is {right}"
    if not (evidence.trained or evidence.excused):
        return f"{found} ({receipt['outcome'].get('message', '')}), and it never trained"
    announced = evidence.announced
    return "" if announced in {None, found} else f"{found}, and its driver had announced {announced}"


def sealed_logs(front: Front, job: str) -> bool:
    """Whether any replica's log was sealed that holds something."""
    manifest = kept(front, job, "logs/manifest.json") or {}
    return any(entry["object"] is not None and entry["size"] for entry in manifest.get("replicas", ()))


def lost_logs(front: Front, job: str, evidence: Evidence, receipt: dict[str, Any] | None) -> list[str]:
    """Replicas whose log is neither in the bucket nor said to be incomplete with the reason."""
    if receipt is None and not evidence.begun:
        return []
    manifest = kept(front, job, "logs/manifest.json")
    if manifest is None:
        return ["the manifest is missing"]
    entries = {entry["replica"]: entry for entry in manifest["replicas"]}
    lost = [f"{name} is not in the manifest" for name in REPLICAS if name not in entries]
    ended = receipt is not None and receipt["outcome"]["state"] == SUCCEEDED
    for name, entry in entries.items():
        words = _LAST_WORDS if ended and name == REPLICAS[0] else ""
        if problem := _lost(front, entry, words):
            lost.append(f"{name}: {problem}")
    return lost


REPLICAS = ("master-replica-0", "worker-replica-0")
#: Of a master that succeeded.
_LAST_WORDS = "chief-0 ends with 0"


def _lost(front: Front, entry: dict[str, Any], words: str) -> str:
    if not entry["complete"]:
        return "" if entry["reason"] else "it is incomplete without a reason"
    if entry["object"] is None:
        return "it is said to be complete and was not stored"
    text = stored(front, entry["object"])
    if text is None:
        return "what the manifest names is not there"
    if hashlib.sha256(text.encode()).hexdigest() != entry["sha256"]:
        return f"what is stored differs from what was sealed ({entry['size']} bytes)"
    return "" if words in text else f"it is said to be complete and lacks {words!r}"
