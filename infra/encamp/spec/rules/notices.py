"""Rules of who is told when a job ends: E25."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

#: Each is a message to send before a job is gone.
_MOST = 10
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")


def check_notices(case: Case) -> None:
    """E25: names of targets, each once. What stands in their place may be a secret and is not repeated."""
    asked = case.job.encamp.notices or ()
    if len(asked) > _MOST:
        case.problem("E25", ("encamp", "notices"), f"names {len(asked)} targets; {_MOST} are allowed", "name fewer")
        return
    seen: set[str] = set()
    for index, one in enumerate(asked):
        path = ("encamp", "notices", index, "target")
        if one.target is None or not _NAME.fullmatch(one.target):
            message = "must be the name of a target that the environment declares; a job file takes no URL"
            case.problem("E25", path, message, "such as team-chat; whoever runs the environment adds it to its notices")
        elif one.target in seen:
            case.problem("E25", path, f"{one.target} is named already", "write its states into one entry")
        else:
            seen.add(one.target)
        if one.states is not None and not one.states:
            case.problem("E25", (*path[:-1], "states"), "is empty", "name an end, such as FAILED, or leave it out")
