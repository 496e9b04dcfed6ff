"""The loop of a study: running trials are looked at, ended ones are judged, and the next ones are begun.

Everything is on record before it is done, and nothing is kept that is not: whoever goes on with a study after its
driver's end does at each step what that would have done. A trial is on record before it is begun, so none is lost; one
that is on record and not begun is begun, so none is counted twice.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.run.store.states import Outcome, State
from encamp.run.studies import verdict
from encamp.tuning.model import Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from encamp.plan.study import StudyPlan
    from encamp.run.store.states import ReplicaFailure
    from encamp.run.studies.host import TrialHost, TrialLook
    from encamp.tuning.model import Measurement
    from encamp.tuning.search import Search

#: A running trial's measurements are put on record again after a tenth of the time that it runs, and not every second:
#: whoever takes the study over reads them anew, and a record that is written at each would grow with their square.
_SHARE, _SECONDS = 0.1, 2.0
_GONE = "its replicas were deleted by somebody else"


class Study:
    """One study.

    Args:
        trials: all that is on record, also those of a job that this one resumes.
        keep: puts a trial as it is now on record; where it raises, nothing has happened.
        unpromising: of all trials and one of them that runs, whether that is worth no more; asked where the job file
            wants trials stopped early.
        show: gets a line for people.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        plan: StudyPlan,
        search: Search,
        host: TrialHost,
        *,
        job_id: str,
        trials: Iterable[Trial],
        keep: Callable[[Trial], None],
        unpromising: Callable[[Sequence[Trial], Trial], bool],
        show: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._search = search
        self._host = host
        self._job_id = job_id
        self._trials = {trial.number: trial for trial in sorted(trials, key=lambda one: one.number)}
        self._put_on_record = keep
        self._unpromising = unpromising
        self._show = show
        self._clock = clock
        self._begun: set[int] = set()
        self._settled: set[int] = set()
        self._told: set[int] = set()
        self._recorded: dict[int, float] = {}
        self._failures: dict[int, ReplicaFailure] = {}
        self._end: Outcome | None = None

    @property
    def trials(self) -> list[Trial]:
        """Every trial of the study by number, with those of a job that this one resumes."""
        return list(self._trials.values())

    @property
    def own(self) -> list[Trial]:
        """The trials of this job."""
        return [trial for trial in self._trials.values() if trial.job_id == self._job_id]

    @property
    def active(self) -> list[Trial]:
        """The trials that have not ended."""
        return [trial for trial in self.own if not trial.state.ended]

    def stop(self, outcome: Outcome) -> None:
        """Try nothing more and stop what runs: once that has ended, ``outcome`` is the study's; the first one counts.

        Raises:
            EngineError: the host gives no answer; a later step tells it again.
        """
        self._end = self._end or outcome
        for trial in self.active:
            self._tell(trial.number)

    def observe(self) -> Outcome | None:
        """Look once and judge what has ended; begins nothing. The study's outcome, None while it goes on.

        Raises:
            EngineError: the host or the record gives no answer; every step may be done again.
        """
        looks = self._host.look()
        for trial in self.active:
            self._note(trial, looks.get(trial.number))
        outcome = self._with_failure(verdict.failed(self._plan, self.own))
        if outcome is not None or self._end is not None:
            self.stop(outcome or self._end or Outcome(State.FAILED))
        self._settle(looks)
        if self.active:
            return None
        return self._end or (self._done() if self._nothing_left() else None)

    def advance(self) -> Outcome | None:
        """Observe as ``observe`` does, then begin the next trials and stop unpromising ones.

        Raises:
            EngineError: as ``observe``.
        """
        outcome = self.observe()
        if outcome is not None or self._end is not None:
            return outcome
        for trial in self.active:
            if trial.state is TrialState.PREPARING and trial.number not in self._begun:
                self._begin(trial)
        self._stop_early()
        for trial in self._asked():
            self._keep(trial)
            values = " ".join(f"--{name}={value}" for name, value in trial.arguments.items())
            after = f", from the checkpoint of trial {trial.parent}" if trial.parent is not None else ""
            self._show(f"trial {trial.number} begins{after}: {values}")
            self._begin(trial)
        # A search that has nothing to say while nothing runs never will.
        return None if self.active else self._done()

    def _done(self) -> Outcome | None:
        return self._with_failure(verdict.done(self.own))

    def _with_failure(self, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome with the replica of the first trial that failed, if this driver saw it."""
        if outcome is None or outcome.state is not State.FAILED:
            return outcome
        first = next((trial.number for trial in self.own if trial.state is TrialState.FAILED), 0)
        return replace(outcome, failure=self._failures.get(first))

    def _begin(self, trial: Trial) -> None:
        self._host.begin(trial)
        self._begun.add(trial.number)

    def _asked(self) -> list[Trial]:
        """Return the trials to begin next, as many as there is room for."""
        room = min(self._plan.max_parallel_trials - len(self.active), self._plan.max_trials - len(self.own))
        if room <= 0:
            return []
        first = 1 + max(self._trials, default=0)
        now = self._clock()
        return [
            Trial(
                number=first + index,
                values=dict(one.values),
                state=TrialState.PREPARING,
                parent=one.parent,
                created=now,
                job_id=self._job_id,
            )
            for index, one in enumerate(self._search.ask(self.trials, room)[:room])
        ]

    def _nothing_left(self) -> bool:
        return len(self.own) >= self._plan.max_trials or self._search.exhausted(self.trials)

    def _note(self, trial: Trial, look: TrialLook | None) -> None:
        """Take what a trial that has not ended has come to."""
        if look is None:
            self._note_missing(trial)
            return
        measurements = self._newer(trial, look.measurements)
        state = look.state
        if state.ended:
            self._ended(trial, look, measurements)
            return
        now = self._clock()
        if state is trial.state and (measurements == trial.measurements or not self._is_due(trial, now)):
            # Decisions use newer data than the record has.
            self._trials[trial.number] = replace(trial, measurements=measurements)
            return
        started = trial.started
        if state is TrialState.RUNNING and started is None:
            started = look.started or now
        self._keep(replace(trial, state=state, measurements=measurements, started=started))
        self._recorded[trial.number] = now

    def _is_due(self, trial: Trial, now: float) -> bool:
        """Whether what a trial has measured since is to be put on record."""
        before = self._recorded.get(trial.number, now - _SECONDS)
        return now - before >= max(_SECONDS, _SHARE * (now - (trial.started or now)))

    def _note_missing(self, trial: Trial) -> None:
        """Settle a trial that is on record and unknown to the host."""
        if trial.stopped_early or trial.number in self._told:
            self._ended(trial, None, trial.measurements)
        elif trial.state is TrialState.PREPARING and trial.number not in self._begun:
            # Its driver died between the record and its beginning. Where nothing more is tried it never will be.
            if self._end is not None:
                self._ended(trial, None, ())
        else:
            self._keep(replace(trial, state=TrialState.FAILED, message=_GONE, ended=self._clock()))
            self._say(self._trials[trial.number])

    def _newer(self, trial: Trial, seen: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """Return the newer measurements of a trial: those on record, while a host begins to read anew."""
        found = verdict.kept(seen)
        if not found or (trial.measurements and found[-1].at < trial.measurements[-1].at):
            return trial.measurements
        return found

    def _ended(self, trial: Trial, look: TrialLook | None, measurements: tuple[Measurement, ...]) -> None:
        """Judge a trial of which nothing runs any more, and put it on record."""
        final = verdict.final_of(look.measurements if look is not None and look.measurements else measurements)
        state = look.state if look is not None else TrialState.CANCELLED
        message = look.message if look is not None else ""
        if trial.stopped_early and measurements:
            state, message, final = TrialState.SUCCEEDED, "", verdict.final_of(measurements)
        elif state is TrialState.SUCCEEDED:
            missing = verdict.without_metric(self._plan.metric, final)
            state = TrialState.FAILED if missing else state
            message = (message if final is None else "") or missing
        ended = (look.ended if look is not None else None) or self._clock()
        started = trial.started or (look.started if look is not None else None)
        done = replace(
            trial,
            state=state,
            measurements=measurements,
            final=final if state is TrialState.SUCCEEDED else None,
            message=message,
            started=min(started or ended, ended) if started or state is TrialState.SUCCEEDED else None,
            ended=ended,
        )
        if look is not None and look.failure is not None:
            self._failures[trial.number] = look.failure
        self._keep(done)
        self._say(done)

    def _stop_early(self) -> None:
        if not self._plan.early_stopping:
            return
        trials = self.trials
        for trial in self.active:
            hopes = trial.stopped_early or trial.state is not TrialState.RUNNING or not trial.measurements
            if not hopes and self._unpromising(trials, trial):
                self._keep(replace(trial, stopped_early=True))
                last = trial.measurements[-1]
                self._show(f"trial {trial.number} is stopped early: {self._plan.metric} {last.value:g} at {last.step}")
            if self._trials[trial.number].stopped_early:
                self._tell(trial.number)

    def _tell(self, number: int) -> None:
        """Stop a trial, once."""
        if number not in self._told:
            self._host.stop(number)
            self._told.add(number)

    def _settle(self, looks: Mapping[int, TrialLook]) -> None:
        """Release the resources of ended trials, also those left by an earlier driver, and unknown ones."""
        for number, look in looks.items():
            trial = self._trials.get(number)
            if trial is None:
                self._show(f"trial {number} is not on record; it is stopped")
                self._tell(number)
            if number not in self._settled and (trial.state.ended if trial is not None else look.state.ended):
                self._host.settle(number)
                self._settled.add(number)

    def _keep(self, trial: Trial) -> None:
        self._put_on_record(trial)
        self._trials[trial.number] = trial

    def _say(self, trial: Trial) -> None:
        if trial.final is not None:
            early = ", stopped early" if trial.stopped_early else ""
            value = f"{self._plan.metric} {trial.final.value:g} at step {trial.final.step}"
            self._show(f"trial {trial.number} is {trial.state}{early}: {value}")
        else:
            self._show(f"trial {trial.number} is {trial.state}{f': {trial.message}' if trial.message else ''}")
