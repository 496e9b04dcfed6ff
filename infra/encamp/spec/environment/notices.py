"""Whom an environment tells that a job has ended: what somebody writes of it.

A target's URL holds its token, so it stands in no file: the finisher of a job reads it from a variable or from Secret
Manager. Messages about mistakes here never repeat what was written, which may be such a URL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.encamp import EndState
from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

#: Begins the name of every variable with a URL: no other variable can become a message's address.
VARIABLE_PREFIX = "ENCAMP_NOTICE_"
_MOST = 20
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_SECRET = re.compile(r"projects/[a-z0-9.:-]+/secrets/[A-Za-z0-9_-]{1,255}(/versions/([0-9]+|latest))?")


class NoticeTargetSpec(Written):
    """Somebody who is told when jobs end. The address is an Apprise URL, which holds its secret."""

    name: Text = ""
    """Name of the target; job files know it by this."""
    secret: Text | None = None
    """The secret of Secret Manager with the URL, ``projects/P/secrets/S``, or one version of it. When absent, the URL
    is in the variable ``ENCAMP_NOTICE_NAME`` of whoever ends the job: the name in capitals, ``_`` for ``-``."""
    states: tuple[EndState, ...] = tuple(EndState)
    """Ends of jobs that are told; every end when absent."""
    every_job: Flag = True
    """Whether it is told of every job; ``false``: only of jobs that name it in ``encamp.notices``."""

    @property
    def variable(self) -> str:
        """The variable with its URL."""
        return VARIABLE_PREFIX + self.name.upper().replace("-", "_")


class NoticesSpec(Written):
    """Messages about jobs that ended: webhooks, e-mail, chat."""

    targets: tuple[NoticeTargetSpec, ...] = ()
    """Whom they go to."""

    def target(self, name: str) -> NoticeTargetSpec | None:
        """The target of a name, None where there is none."""
        return next((one for one in self.targets if one.name == name), None)


def notices_problems(notices: NoticesSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Find everything that is wrong with it."""
    if not notices.targets:
        yield Found(("targets",), "there is nobody to tell", "write `targets`, or leave notices out")
    if len(notices.targets) > _MOST:
        yield Found(("targets",), f"holds {len(notices.targets)} targets; {_MOST} are allowed")
    seen: set[str] = set()
    for index, one in enumerate(notices.targets):
        if not _NAME.fullmatch(one.name):
            message = "must be a lowercase letter, then letters, digits and -, at most 40 characters"
            yield Found(("targets", index, "name"), message, "such as team-chat")
        elif one.name in seen:
            yield Found(("targets", index, "name"), f"{one.name} is declared already", "give each target its own name")
        seen.add(one.name)
        if not one.states:
            yield Found(
                ("targets", index, "states"), "names no end of a job", "such as [FAILED]; every end when absent"
            )
        if one.secret is not None:
            yield from _secret(one.secret, index, environment)


def _secret(secret: str, index: int, environment: EnvironmentSpec) -> Iterator[Found]:
    at = ("targets", index, "secret")
    if not _SECRET.fullmatch(secret):
        message = "must be the full name of a secret of Secret Manager, and never the URL itself"
        yield Found(at, message, "such as projects/my-project/secrets/team-chat")
    elif environment.is_sandbox:
        yield Found(at, "the sandbox has no Secret Manager", "leave it out, and set the variable")
