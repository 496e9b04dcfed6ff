"""Tells people that a job has ended: what is written to whom, once, and what the journal keeps of it.

Whoever ends a job sends its notices and writes each into the journal as soon as it is sent; a later finisher sends only
what is not there. No notice can fail a job or its tear-down: what goes wrong is one line, an entry, and a line of the
receipt. Addresses are read here and go to the sending process alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from encamp.duration import Duration
from encamp.errors import EncampError
from encamp.extras import lacking
from encamp.notices.addresses import read_addresses
from encamp.notices.sending import Delivery, Message, send
from encamp.plan.notices import merged_notices, read_notices
from encamp.project import project_folder
from encamp.redaction import redacted
from encamp.run.store.records import LeaseLostError
from encamp.run.store.states import State
from encamp.spec.environment import load_environment
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from encamp.cloud.rest import GoogleClient
    from encamp.plan.notices import NoticePlan
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Entry, Lease, Records, RunRecord
    from encamp.run.store.states import Outcome
    from encamp.spec.environment.notices import NoticesSpec

#: Kind of the entry of a notice: ``target``, ``state``, ``sent``, and ``why`` not.
NOTICE = "notice"
_KINDS = {State.SUCCEEDED: "success", State.FAILED: "failure", State.CANCELLED: "warning"}
#: Chat services refuse long messages, some more than 2,000 characters.
_LONGEST_WHY = 600


class Notifier:
    """Sends the notices of one job.

    Args:
        client: asks Secret Manager.
        show: gets a line for people.
    """

    def __init__(
        self, records: Records, lease: Lease, intent: Intent, client: GoogleClient, show: Callable[[str], None]
    ) -> None:
        self._records = records
        self._lease = lease
        self._intent = intent
        self._client = client
        self._show = show

    def tell(self, outcome: Outcome, receipt: Mapping[str, Any] | None, trouble: str | None) -> bool:
        """Tell everybody who is not told yet that the job has ended; whether the journal has new entries.

        ``trouble`` is why tear-down is not done, None where it is.

        Raises:
            LeaseLostError: another driver has the job; nothing was sent.
        """
        record = self._records.record(self._lease.job_id)
        due, declared = self._due(outcome.state, record.entries if record is not None else ())
        if not due or record is None:
            return False
        if not self._records.holds(self._lease):
            raise LeaseLostError(self._lease.job_id)
        addresses, refused = self._addresses(due, declared)
        text = message(self._intent, record, outcome, receipt, trouble, secrets=addresses.values())
        deliveries = {**refused, **send(addresses, text)} if addresses else refused
        for name, delivery in sorted(deliveries.items()):
            said = {} if delivery.sent else {"why": delivery.why}
            entry = {"target": name, "state": str(outcome.state), "sent": delivery.sent, **said}
            self._records.append(self._lease, NOTICE, entry)
            self._show(f"notice to {name}: {'sent' if delivery.sent else f'not sent, {delivery.why}'}")
        return True

    def _due(self, state: State, entries: Iterable[Entry]) -> tuple[list[str], NoticesSpec | None]:
        """Targets that are to be told, and the environment's declarations of them."""
        try:
            planned = read_notices(self._intent.notices)
        except (KeyError, TypeError):
            planned = ()
        try:
            declared = load_environment(self._intent.environment, project_folder()).notices
        except EncampError as error:
            if planned:
                self._show(f"no notice can be sent: {error.what}")
            return [], None
        told = {entry.data.get("target") for entry in entries if entry.kind == NOTICE and entry.data.get("sent")}
        wanted: tuple[NoticePlan, ...] = merged_notices(planned, declared)
        return [one.target for one in wanted if state in one.states and one.target not in told], declared

    def _addresses(
        self, due: Iterable[str], declared: NoticesSpec | None
    ) -> tuple[dict[str, str], dict[str, Delivery]]:
        """The address of each target, and why there is none."""
        targets = {name: declared.target(name) if declared is not None else None for name in due}
        known = [one for one in targets.values() if one is not None]
        refused = {
            name: Delivery(sent=False, why="the environment declares no such target")
            for name, target in targets.items()
            if target is None
        }
        if error := lacking("notices", "a notice"):
            why = f"{error.what}: {error.hint}"
            return {}, refused | {one.name: Delivery(sent=False, why=why) for one in known}
        read = read_addresses(known, self._client, os.environ)
        found = {name: address for name, address in read.items() if isinstance(address, str)}
        for name, error in read.items():
            if isinstance(error, EncampError):
                refused[name] = Delivery(sent=False, why=error.what)
        return found, refused


def notices_of(record: RunRecord) -> list[dict[str, Any]]:
    """Return the result of each notice, as the receipt has it: the latest entry of each target."""
    latest = {entry.data.get("target"): entry for entry in record.entries if entry.kind == NOTICE}
    return [{**entry.data, "at": entry.at.isoformat(timespec="milliseconds")} for entry in latest.values()]


def unready(planned: Sequence[NoticePlan], stack: str, environ: Mapping[str, str]) -> list[str]:
    """Say before a job begins which of its notices this process could not send, as far as no cloud has to be asked.

    ``stack`` is the environment's.

    Raises:
        EncampError: its config cannot be read.
    """
    names = [one.target for one in planned]
    if names and (error := lacking("notices", "a notice")):
        return [f"no notice can be sent to {', '.join(names)}: {error.what}: {error.hint}"]
    declared = load_environment(stack, project_folder()).notices if names else None
    targets = [declared.target(name) for name in names] if declared is not None else []
    return [
        f"no notice can be sent to {one.name} from here: {one.variable} is not set (docs/notices.md)"
        for one in targets
        if one is not None and one.secret is None and not environ.get(one.variable)
    ]


def message(
    intent: Intent,
    record: RunRecord,
    outcome: Outcome,
    receipt: Mapping[str, Any] | None,
    trouble: str | None,
    *,
    secrets: Iterable[str] = (),
) -> Message:
    """Write the notice of a job: what became of it, how long it ran, its cost, where everything is.

    What a trainer said is bounded, without secrets of a known form and without ``secrets``, and mentions nobody.
    """
    job, environment = intent.job_id, intent.environment
    cost = ((receipt or {}).get("cost") or {}).get("amount")
    facts = {
        "environment": f"{environment} ({intent.project})",
        "why": outcome.message,
        "ran": _running_time(record),
        "cost": f"about {cost:.4f} USD" if cost is not None else "",
        "results": intent.job_dir or "",
        "logs": f"gs://{intent.artifacts_bucket}/{intent.prefix}logs/",
        "still there": f"tear-down is not done, {trouble}; encamp reap --job {job} -s {environment}" if trouble else "",
        "more": f"encamp describe {job} -s {environment}; encamp logs {job} -s {environment}",
    }
    known = tuple(secrets)
    lines = [f"{name}: {_plain(value, known)}" for name, value in facts.items() if value]
    return Message(f"encamp: {job} {outcome.state}", "\n".join(lines), _KINDS.get(outcome.state, "info"))


def _plain(text: str, secrets: Iterable[str]) -> str:
    """A line that people may read: bounded, and without what chat services take for a mention of somebody."""
    shown = visible(" ".join(redacted(text, secrets).split()))
    if len(shown) > _LONGEST_WHY:
        shown = f"{shown[: _LONGEST_WHY - 4]} ..."
    return shown.replace("@", "@\u200b").replace("<!", "<\u200b!")


def _running_time(record: RunRecord) -> str:
    """How long its training ran, by the states' times."""
    began = record.times.get(State.RUNNING)
    ends = (record.times.get(state) for state in (State.CANCELLING, State.SUCCEEDED, State.FAILED))
    ended = next((at for at in ends if at is not None), None)
    if began is None or ended is None or ended < began:
        return "it did not start"
    return Duration.of(round((ended - began).total_seconds())).words
