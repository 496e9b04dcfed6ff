"""The person or account behind an action on a job: a machine's user, their account at Google, and their workflow.

Google's own audit logs say for certain whose credentials made, changed and deleted what; this is what the journal and
the receipt know of it beside them.
"""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.whoami import google_account

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from encamp.run.store.journal import RunRecord

#: Kind of the journal's entries about who took a job over.
ACTOR = "actor"


@dataclass(frozen=True)
class Actor:
    """A person or account that acts on a job.

    Attributes:
        user: name on the machine.
        host: name of the machine.
        account: e-mail at Google, None if nothing here says it.
        workflow: the run of a workflow that this is part of, and whose it is; None outside of one.
    """

    user: str
    host: str
    account: str | None = None
    workflow: str | None = None

    @classmethod
    def myself(cls, environ: Mapping[str, str] | None = None) -> Actor:
        """Return the actor of this process."""
        environ = os.environ if environ is None else environ
        return cls(_user(), socket.gethostname(), google_account(environ), _workflow(environ))

    def words(self) -> str:
        """Return the actor in words: ``ana@example.com, ana@laptop``."""
        return ", ".join(part for part in (self.account, f"{self.user}@{self.host}", self.workflow) if part)

    def to_json(self) -> dict[str, str]:
        """Return the journal's form; unknown fields are left out."""
        known = {"user": self.user, "host": self.host, "account": self.account, "workflow": self.workflow}
        return {key: value for key, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Actor:
        """Return the actor that ``to_json`` wrote."""
        account, workflow = data.get("account"), data.get("workflow")
        return cls(
            str(data.get("user", "")),
            str(data.get("host", "")),
            str(account) if account else None,
            str(workflow) if workflow else None,
        )


def deeds_of(record: RunRecord) -> list[dict[str, str]]:
    """Return who started a job, took it over and requested its end, each with its time, in the receipt's form."""
    started = (record.intent or {}).get("startedBy")
    found = [_deed("started", started, record.created)] if isinstance(started, dict) else []
    found += [_deed(str(one.data.get("did")), one.data, one.at) for one in record.entries if one.kind == ACTOR]
    if record.cancel is not None:
        found.append({"did": "cancelled", "by": record.cancel.by, "at": _written(record.cancel.at)})
    return found


def _deed(did: str, who: Mapping[str, Any], at: datetime) -> dict[str, str]:
    actor = Actor.from_json(who)
    deed = {"did": did, "by": actor.words(), "at": _written(at)}
    return {**deed, "account": actor.account} if actor.account else deed


def _written(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have a number and no name.
        return str(os.getuid())


def _workflow(environ: Mapping[str, str]) -> str | None:
    """Return the run of a workflow (docs.github.com/actions/reference/variables-reference)."""
    run, repository = environ.get("GITHUB_RUN_ID"), environ.get("GITHUB_REPOSITORY")
    if not run or not repository:
        return None
    return f"{repository}/actions/runs/{run} by {environ.get('GITHUB_ACTOR', 'somebody')}"
