"""One job and what is done to it: from its start, over a kill or a wrong answer, to a cloud without it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.plan.names import short_name
from harness.cases import DRIVER, HANG, PAUSES, Case
from harness.foreign import Foreign
from harness.front import Fault
from harness.judging import Evidence, lost_logs, sealed_logs, wrong_outcome
from harness.listing import PROJECT, kept, listed
from harness.steps import noted_steps

if TYPE_CHECKING:
    from harness.ground import Command, Ground
    from harness.steps import Step

_REACH_SECONDS = 240.0
_END_SECONDS = 420.0
_CLEAN_SECONDS = 420.0
_LOOK_SECONDS = 0.1


@dataclass
class Result:
    """What became of one job; ``left``, ``lost``, ``wrong`` and ``touched`` have to be empty.

    Attributes:
        reached: whether the step or the moment came, and the victim lived.
        struck: whether the wrong answer was given; True where the case has none.
        outcome: the state that the receipt tells, None without one.
        left: what clouds still list of it.
        lost: which logs are lost.
        wrong: what is wrong with its outcome.
        touched: which look-alikes of another owner were touched.
        seconds: from the harm until nothing was listed any more.
    """

    seed: int
    job: str
    case: str
    reached: bool = False
    struck: bool = True
    outcome: str | None = None
    left: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: str = ""
    touched: list[str] = field(default_factory=list)
    seconds: float = 0.0
    said: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.left or self.lost or self.wrong or self.touched)

    def json(self) -> dict[str, Any]:
        """Without what was said where all is well."""
        shown = asdict(self)
        if not self.failed:
            del shown["said"]
        return shown


def note(ground: Ground) -> tuple[list[Step], float]:
    """Run a job that nothing disturbs; its steps, and how many seconds it took."""
    job = ground.job_id("n")
    with Fault(ground.front, type="*", operation="*", kind="note", name=f"*{job}*", count=10**6) as noted:
        began = time.monotonic()
        ground.start(job, succeeds=True).ends(0)
        return noted_steps(noted.struck(), job), time.monotonic() - began


class Trial:
    """One case on a ground that other trials may share.

    Args:
        run_seconds: what an undisturbed run takes.
    """

    def __init__(self, case: Case, ground: Ground, run_seconds: float) -> None:
        self._case = case
        self._ground = ground
        self._run_seconds = run_seconds
        self._job = ground.job_id(case.seed)
        self._result = Result(case.seed, self._job, str(case))
        self._since = 0.0

    def run(self) -> Result:
        """Do it, clean up as a user would, and judge."""
        front = self._ground.front
        foreign = Foreign(front, short_name(PROJECT, "sandbox", self._job))
        began = time.time()
        try:
            with Fault(front, type="*", operation="*", kind="note", name=f"*{self._job}*", count=10**6) as noted:
                with self._refused() as refused:
                    with self._ground.driving(self._case.victim):
                        command = self._harmed(refused)
                    self._result.left = self._cleaned(foreign.prefix)
                    self._result.struck = refused is None or bool(refused.struck())
                asked = noted.struck()
            if not self._case.victim:
                self._result.reached = self._result.struck
            evidence = Evidence(
                said=command.said(),
                asked=asked,
                succeeds=self._case.succeeds,
                disturbed=self._ground.disturbed(began, time.time()) or bool(self._case.refusal),
                driver_killed=self._case.victim == DRIVER,
                refused=self._case.final and self._result.struck,
                logged=sealed_logs(front, self._job),
            )
            receipt = kept(front, self._job, "receipt.json")
            self._result.outcome = receipt["outcome"]["state"] if receipt else None
            self._result.wrong = self._result.wrong or wrong_outcome(evidence, receipt)
            self._result.lost = lost_logs(front, self._job, evidence, receipt)
            self._result.touched = foreign.touched()
            self._result.said = command.said() + self._ground.reaper.said_of(self._job)
        finally:
            foreign.remove()
        return self._result

    def _refused(self) -> contextlib.AbstractContextManager[Fault | None]:
        """The wrong answer of the case, set until the job is gone: its driver may be dead when the step comes."""
        case = self._case
        if case.refused is None:
            return contextlib.nullcontext()
        return Fault(self._ground.front, **case.refused.fault(self._job, case.refusal, case.count))

    def _harmed(self, refused: Fault | None) -> Command:
        """Start the job, do to it what the case says, and wait for its driver's end."""
        case = self._case
        command = self._ground.start(self._job, succeeds=case.succeeds)
        try:
            if case.step is not None:
                self._killed_at(case.step, command)
            elif case.victim and case.refusal == HANG and refused is not None:
                self._result.reached = self._comes(refused, command) and self._kills(command)
            elif case.victim:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    command.process.wait(case.moment * self._run_seconds)
                self._result.reached = self._kills(command)
            command.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._result.wrong = f"its driver did not end within {_END_SECONDS:.0f} s"
            command.process.kill()
            command.process.wait()
        self._since = self._since or time.monotonic()
        return command

    def _killed_at(self, step: Step, command: Command) -> None:
        with Fault(self._ground.front, **step.fault(self._job, PAUSES[self._case.when])) as paused:
            self._result.reached = self._comes(paused, command) and self._kills(command)
            time.sleep(self._case.pause)

    def _comes(self, fault: Fault, command: Command) -> bool:
        """Whether a fault is reached before the driver ends."""
        end = time.monotonic() + _REACH_SECONDS
        while not fault.struck():
            if command.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _kills(self, command: Command) -> bool:
        self._since = time.monotonic()
        return self._ground.kill(self._case.victim, command.process.pid)

    def _cleaned(self, foreign: str) -> list[str]:
        """Reap until the reaper has nothing more to say of the job and nothing is listed; what is left in the end."""
        end = time.monotonic() + _CLEAN_SECONDS
        while True:
            done = self._ground.reaper.reaped(self._job)
            left = listed(self._ground.front, self._job, foreign)
            if (done and not left) or time.monotonic() > end:
                self._result.seconds = round(time.monotonic() - self._since, 1)
                return left if done else [*left, "the reaper has not brought it to its end"]
            time.sleep(1)
