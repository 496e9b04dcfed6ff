"""The progress of a ladder's run, kept in a file of its folder, so that a killed run can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.answers import BeliefAnswer
from encamp.errors import UsageError
from encamp.run.store import holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FILE: Final = "run.json"
#: A holder of this machine is judged by its process alone.
_FOR_EVER: Final = float("inf")


@dataclass(frozen=True)
class RungResult:
    """The result of a rung.

    Attributes:
        job: id of its job.
        state: how the job ended; None while it has not.
        as_believed: whether it ended as it has to.
        trouble: why it did not run or not end so, empty if it did.
        cost: USD by the receipt, None if that is not known.
        seconds: how long it took.
    """

    job: str
    state: str | None = None
    as_believed: bool = False
    trouble: str = ""
    cost: float | None = None
    seconds: float = 0.0


@dataclass
class Progress:
    """One run.

    Attributes:
        run: its id, also the name of its folder.
        holder: the process that works on it, see ``run.holder``.
        claimed: it has brought the environment up, or has begun to.
        rungs: every rung that was begun.
        jobs: ids of every job that was begun, also of those that a killed process had begun.
        answers: what Google did so far.
        ended: no rung is to come any more: all have run, or the run was ended by an error or a person.
        finished: everything was taken down.
    """

    folder: Path
    run: str
    stack: str
    started: float
    holder: str
    claimed: bool = False
    rungs: dict[str, RungResult] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    answers: list[BeliefAnswer] = field(default_factory=list)
    ended: bool = False
    finished: bool = False

    @classmethod
    def made(cls, root: Path, stack: str, run: str, started: float) -> Progress:
        """Return a run of this process."""
        return cls(root / stack / run, run, stack, started, holder.myself())

    @classmethod
    def begin(cls, root: Path, stack: str, run: str, started: float) -> Progress:
        """Return a new run of this process, on file at once."""
        progress = cls.made(root, stack, run, started)
        progress.save()
        return progress

    @property
    def is_alive(self) -> bool:
        """Whether its process still works on it."""
        return not self.finished and holder.is_here(self.holder) and holder.alive(self.holder, _FOR_EVER, 0.0)

    def refuse_alive(self) -> None:
        """Refuse a run whose process lives.

        Raises:
            UsageError: it does.
        """
        if self.is_alive:
            raise UsageError(
                f"{holder.words(self.holder)} runs the ladder on {self.stack}",
                where=self.run,
                hint="wait for it, or end it first",
            )

    def take_over(self) -> None:
        """Resume the run of a process that has died.

        Raises:
            UsageError: it lives.
        """
        self.refuse_alive()
        self.holder = holder.myself()
        self.save()

    def note(self, rung: str, result: RungResult) -> None:
        """Keep what became of a rung."""
        self.rungs[rung] = result
        if result.job not in self.jobs:
            self.jobs.append(result.job)
        self.save()

    def add(self, answers: Iterator[BeliefAnswer]) -> None:
        """Keep answers; one place's answer to a belief is kept once."""
        for answer in answers:
            same = (answer.belief, answer.place)
            self.answers = [one for one in self.answers if (one.belief, one.place) != same]
            self.answers.append(answer)
        self.save()

    def save(self) -> None:
        """Write the file, all or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = {
            "run": self.run,
            "stack": self.stack,
            "started": self.started,
            "holder": self.holder,
            "claimed": self.claimed,
            "rungs": {name: asdict(result) for name, result in self.rungs.items()},
            "jobs": self.jobs,
            "answers": [answer.to_json() for answer in self.answers],
            "ended": self.ended,
            "finished": self.finished,
        }
        new = self.folder / f"{_FILE}.new"
        new.write_text(json.dumps(data, indent=1), encoding="utf-8")
        new.replace(self.folder / _FILE)


def unfinished(root: Path, stack: str) -> list[Progress]:
    """Return runs on a stack that were not brought to their end on this machine, oldest first."""
    folders = sorted((root / stack).glob(f"*/{_FILE}"))
    return [found for path in folders if not (found := _read(path)).finished]


def find(root: Path, stack: str, run: str) -> Progress | None:
    """Return a run by its id; None if this machine does not know it."""
    path = root / stack / run / _FILE
    return _read(path) if path.is_file() else None


def _read(path: Path) -> Progress:
    """Return the run of a file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Progress(
            folder=path.parent,
            run=data["run"],
            stack=data["stack"],
            started=float(data["started"]),
            holder=data["holder"],
            claimed=bool(data["claimed"]),
            rungs={name: RungResult(**result) for name, result in data["rungs"].items()},
            jobs=list(data["jobs"]),
            answers=[BeliefAnswer.from_json(answer) for answer in data["answers"]],
            ended=bool(data.get("ended")),
            finished=bool(data["finished"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        hint = "remove its folder once `encamp reap` finds nothing"
        raise UsageError(f"the run's file cannot be read: {error}", where=str(path), hint=hint) from error
