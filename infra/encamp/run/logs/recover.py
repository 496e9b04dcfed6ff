"""Logs that no pod can give any more, from Cloud Logging.

A node that is idle goes with its pods' logs, and a job that nobody watched has often ended before. What the spool has
is kept unless Cloud Logging has at least as much.

Entries can be listed about once a second (cloud.google.com, "Quotas and limits" of Cloud Logging), a thousand a time:
so many replicas are asked for at once, lines go to the disk as they come, and after some time that is all.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JOB_LABEL
from encamp.cloud.logging import LoggedLine, container_lines
from encamp.errors import EncampError
from encamp.plan.model import TRIAL_LABEL
from encamp.plan.names import log_name
from encamp.run.bounded import Deadline, within
from encamp.run.logs.replicas import CONTAINER, INDEX_LABEL, ROLE_LABEL, replica_labels, trial_number
from encamp.run.logs.spool import again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.run.logs.spool import ReplicaLog
    from encamp.run.logs.stream import LogStreams
    from encamp.run.store.intent import Intent

#: Number of queries for logs until two answers agree: the last lines may be on their way.
_ATTEMPTS = 5
_PAUSE_SECONDS = 2.0
#: Up to so many replicas have a query each, more of them one query about the whole job.
_SINGLY = 4
_SECONDS, _SECONDS_A_LOG = 60.0, 0.25
_HELD_BYTES = 16 * 1024
_SHORT = "Cloud Logging was not read to its end in time"


def recover_logs(
    client: GoogleClient,
    intent: Intent,
    streams: LogStreams,
    show: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    *,
    replicas: Sequence[str] | None = None,
    sealed: Callable[[str], bool] = lambda _: False,
    seconds: float | None = None,
) -> None:
    """Complete, from Cloud Logging, every log that is not whole. What cannot be had keeps its reason.

    ``replicas`` are the names of those that are wanted, None for all that the intent names; ``sealed`` tells of a
    replica whether its whole log is in the bucket already; ``seconds`` is how long it may take, None for a minute and a
    quarter of a second a log.
    """
    wanted = intent.replicas if replicas is None else replicas
    short = [name for name in wanted if not (streams.log(name).state["complete"] or sealed(name))]
    if not short:
        return
    deadline = Deadline(seconds if seconds is not None else _SECONDS + _SECONDS_A_LOG * len(short))
    questions = [[name] for name in short] if len(short) <= _SINGLY else [short]
    for names in questions:
        recovery = _Recovery(client, intent, {name: streams.log(name) for name in names}, deadline, sleep)
        try:
            (found,) = within(deadline, [recovery.run], threads=1)
        except (EncampError, OSError) as error:
            what = error.what if isinstance(error, EncampError) else str(error)
            show(f"{_named(names)}: Cloud Logging does not help: {what}")
            continue
        finally:
            recovery.over = True
        if found is None:
            show(f"{_named(names)}: Cloud Logging does not help: no answer within {deadline.seconds:.0f} s")
        for name, lines in (found or {}).items():
            show(f"{name}: its log was taken from Cloud Logging ({lines} lines)")


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


@dataclass
class _Draft:
    """One replica's log while it is written to a file."""

    path: Path
    replica: str
    pods: list[str] = field(default_factory=list)
    lines: int = 0
    held: list[bytes] = field(default_factory=list)
    size: int = 0
    begun: bool = False
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, line: LoggedLine) -> None:
        if line.pod not in self.pods[-1:]:
            if self.pods:
                self._put(again(self.replica, line.pod))
            self.pods.append(line.pod)
        self._put(line.text.encode())
        self.lines += 1

    def flush(self) -> None:
        with self.path.open("ab" if self.begun else "wb") as stream:
            stream.write(b"".join(self.held))
        self.held.clear()
        self.size, self.begun = 0, True

    def _put(self, text: bytes) -> None:
        self.digest.update(text + b"\n")
        self.held.append(text + b"\n")
        self.size += len(text) + 1
        if self.size > _HELD_BYTES:
            self.flush()


class _Recovery:
    """The logs of some replicas, by one question that is asked until two answers agree."""

    def __init__(
        self,
        client: GoogleClient,
        intent: Intent,
        logs: dict[str, ReplicaLog],
        deadline: Deadline,
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._intent = intent
        self._logs = logs
        self._deadline = deadline
        self._sleep = sleep
        self.over = False

    def run(self) -> dict[str, int]:
        """Return the replicas whose logs were taken, each with its number of lines.

        That nothing is there is an answer like another: the first lines of a replica may be on their way as well.
        """
        before: dict[str, _Draft] | None = None
        drafts: dict[str, _Draft] = {}
        short = ""
        try:
            for attempt in range(_ATTEMPTS):
                drafts, short = self._read(attempt)
                if short and before:
                    drafts, short = before, ""
                if short or (before is not None and _same(drafts, before)):
                    break
                before = drafts
                if attempt + 1 < _ATTEMPTS:
                    self._sleep(_PAUSE_SECONDS)
            return {name: draft.lines for name, draft in drafts.items() if self._taken(name, draft, short)}
        finally:
            for name, log in self._logs.items():
                for attempt in range(_ATTEMPTS):
                    with contextlib.suppress(OSError):
                        _draft_path(log, name, attempt).unlink(missing_ok=True)

    def _taken(self, name: str, draft: _Draft, short: str) -> bool:
        return not self.over and self._logs[name].take(draft.path, len(draft.pods), draft.pods[-1], short)

    def _read(self, attempt: int) -> tuple[dict[str, _Draft], str]:
        """Return every line of now in drafts, and why there may be more."""
        drafts: dict[str, _Draft] = {}
        short = ""
        for line in self._lines():
            name = _replica(line)
            if name in self._logs:
                if name not in drafts:
                    drafts[name] = _Draft(_draft_path(self._logs[name], name, attempt), name)
                drafts[name].add(line)
            if self.over or not self._deadline.left:
                short = _SHORT
                break
        for draft in drafts.values():
            draft.flush()
        return drafts, short

    def _lines(self) -> Iterator[LoggedLine]:
        labels = {JOB_LABEL: self._intent.name}
        if len(self._logs) == 1:
            labels |= replica_labels(next(iter(self._logs)))
        return container_lines(
            self._client,
            self._intent.project,
            cluster=self._intent.cluster.rpartition("/")[2],
            namespace=self._intent.namespace,
            container=CONTAINER,
            labels=labels,
        )


def _draft_path(log: ReplicaLog, name: str, attempt: int) -> Path:
    log.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return log.path.with_name(f"{name}.log.{attempt}")


def _replica(line: LoggedLine) -> str:
    index = line.label(INDEX_LABEL)
    trial = trial_number({TRIAL_LABEL: line.label(TRIAL_LABEL)})
    return log_name(line.label(ROLE_LABEL), int(index), trial) if index.isdigit() else ""


def _same(drafts: dict[str, _Draft], before: dict[str, _Draft]) -> bool:
    return {name: one.digest.digest() for name, one in drafts.items()} == {
        name: one.digest.digest() for name, one in before.items()
    }
