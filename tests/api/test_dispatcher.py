"""The dispatcher over a real record, with processes that are told when to die."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from encamp.api.dispatcher import Dispatcher
from encamp.errors import EngineError, UsageError
from encamp.run.store import holder
from encamp.run.store.encryption import Cipher
from encamp.run.store.records import Records
from encamp.run.store.states import State
from encamp.run.store.submissions import Submission, Submissions
from encamp.run.store.tables import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Lease
    from encamp.run.store.submissions import Waiting

pytestmark = pytest.mark.slow

PATIENCE = 400


class Killed(BaseException):
    """The process ends here, and nothing of it can do anything about it."""


@dataclass
class Process:
    """A driver or an adopter: it says who it is, begins or takes over, and ends, a step each time it gets to run."""

    name: str
    job: str
    work: Iterator[None]
    living: bool = True

    def alive(self) -> bool:
        return self.living


@dataclass
class Machine:
    """One machine: its record, its time, its processes, and which of them does what is being done."""

    records: Records
    submissions: Submissions
    now: float = 1_800_000_000.0
    living: set[str] = field(default_factory=set)
    me: str = "nobody"
    processes: list[Process] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    #: What drivers die of, by job: the step before which each one after another does; None where it does not.
    deaths: dict[str, list[str]] = field(default_factory=dict)
    most: int = 0

    @contextmanager
    def being(self, name: str) -> Iterator[None]:
        before, self.me = self.me, name
        try:
            yield
        finally:
            self.me = before

    def drive(self, job: str) -> Process:
        return self._begun(f"driver-{len(self.processes)}", job, self._driving(job))

    def adopt(self, job: str) -> Process:
        return self._begun(f"adopter-{len(self.processes)}", job, self._adopting(job))

    def run(self) -> None:
        """Let every process do its next step, and a second pass."""
        for process in [one for one in self.processes if one.living]:
            with self.being(process.name):
                if next(process.work, StopIteration) is StopIteration:
                    process.living = False
                    self.living.discard(process.name)
        # Where nobody does anything time passes faster.
        self.now += 1 if any(one.living for one in self.processes) else 15
        self.most = max(self.most, len(self.busy()))

    def busy(self) -> list[str]:
        """Jobs that are begun and not over."""
        return [one.job_id for one in self.submissions.open("e") if one.begun is not None]

    def _begun(self, name: str, job: str, work: Iterator[None]) -> Process:
        self.living.add(name)
        self.processes.append(Process(name, job, work))
        return self.processes[-1]

    def _driving(self, job: str) -> Iterator[None]:
        death = (self.deaths.get(job) or [""]).pop(0) if self.deaths.get(job) else ""
        for step in ("start", "check in", "begin", "train", "end"):
            yield
            if step == death:
                return
            if step == "check in" and not self.submissions.check_in(job):
                return
            if step == "begin" and death == "trouble":
                self.submissions.note_trouble(job, "no cloud")
                return
            if step == "begin" and not self._begins(job):
                return
        self._ended(self.leases[job])

    def _begins(self, job: str) -> bool:
        try:
            self.leases[job] = self.records.begin(job, f"{job}-1", {"environment": "e"}, submitted=True)
        except UsageError:
            return False
        self.ran.append(job)
        return True

    def _adopting(self, job: str) -> Iterator[None]:
        yield
        try:
            lease = self.records.adopt(job, f"{job}-1", {"environment": "e"})
        except UsageError:
            return
        yield
        self._ended(lease)

    def _ended(self, lease: Lease) -> None:
        self.records.move(lease, State.PREPARING)
        self.records.move(lease, State.SUCCEEDED)
        self.records.append(lease, "gone", {})
        self.records.release(lease)

    def know(self, job: str) -> RunRecord:
        record = self.records.record(job)
        assert record is not None
        return record


class Launcher:
    """Starts processes of a machine, but for the first times."""

    def __init__(self, machine: Machine, *, refuse: int = 0, refuse_adoption: int = 0) -> None:
        self.machine = machine
        self.refuse = refuse
        self.refuse_adoption = refuse_adoption
        self.started: list[str] = []

    def start(self, job: Waiting) -> Process:
        self.started.append(job.job_id)
        if self.refuse:
            self.refuse -= 1
            raise OSError("no more processes")
        return self.machine.drive(job.job_id)

    def find(self, job: Waiting) -> Process | None:
        name = json.loads(job.driver)["name"] if job.driver is not None else None
        return next((one for one in self.machine.processes if one.name == name and one.living), None)

    def adopt(self, job: Waiting) -> Process:
        if self.refuse_adoption:
            self.refuse_adoption -= 1
            raise EngineError("not now")
        return self.machine.adopt(job.job_id)


def made_machine() -> Machine:
    """What is tested here is the death of processes, so the record need not outlive this one."""
    database = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    METADATA.create_all(database)
    records = Records(database, lambda: made.now)
    made = Machine(records, Submissions(records, Cipher(Fernet.generate_key())))
    return made


@contextmanager
def holding(machine: Machine) -> Iterator[Machine]:
    """Let holders be processes of a machine."""

    def myself() -> str:
        return json.dumps({"name": machine.me, "host": "here", "pid": 1})

    def alive(who: str, expires: float, now: float) -> bool:
        return expires > now and json.loads(who)["name"] in machine.living

    def here(_: str) -> bool:
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holder, "myself", myself)
        patch.setattr(holder, "alive", alive)
        patch.setattr(holder, "is_here", here)
        yield machine
    machine.records.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with holding(made_machine()) as made:
        yield made


_SERVERS = itertools.count()


class Server:
    """A dispatcher in a process of its own."""

    def __init__(self, machine: Machine, *, drivers: int = 2, launcher: Launcher | None = None) -> None:
        self.machine = machine
        self.name = f"server-{next(_SERVERS)}"
        self.launcher = launcher or Launcher(machine)
        self.dispatcher = Dispatcher(
            machine.submissions, machine.records, self.launcher, "e", drivers=drivers, clock=lambda: machine.now
        )
        machine.living.add(self.name)

    def step(self) -> None:
        with self.machine.being(self.name):
            self.dispatcher.step()

    def finish(self) -> None:
        """Until nothing waits and nothing runs."""
        for _ in range(PATIENCE):
            self.step()
            self.machine.run()
            if not self.machine.submissions.open("e"):
                return
        raise AssertionError([*self.machine.submissions.open("e"), *self.machine.processes])


def hand_in(machine: Machine, *jobs: str, **other: Any) -> None:
    for job in jobs:
        made = Submission(job, f"{job}-1", "e", {"jobId": job}, "ana@example.com", **other)
        with machine.being("client"):
            machine.submissions.submit(made)


def test_so_many_at_once_and_the_most_important_first(machine: Machine) -> None:
    hand_in(machine, "a", "b", "c")
    hand_in(machine, "urgent", priority=10)
    server = Server(machine, drivers=2)
    server.finish()
    assert server.launcher.started == ["urgent", "a", "b", "c"]
    assert (machine.most, sorted(machine.ran)) == (2, ["a", "b", "c", "urgent"])


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_server_killed_anywhere_loses_no_job_and_starts_none_twice(after: bool) -> None:
    """It dies before, or right after, each of its writes and starts in turn; another one goes on."""
    for place in itertools.count():
        with holding(made_machine()) as machine:
            if not killed_at(machine, place, after=after):
                break
    assert place > 10


def killed_at(machine: Machine, place: int, *, after: bool) -> bool:
    """Whether the server came to this place before all was over."""
    hand_in(machine, "a", "b", "c")
    hand_in(machine, "late", wait_seconds=3)
    machine.deaths = {"b": ["begin"], "c": ["end"]}
    server = Server(machine)
    left = itertools.count(place, -1)

    def deadly(work: Any) -> Any:
        def done(*arguments: Any) -> Any:
            dies = machine.me == server.name and next(left) == 0
            if dies and not after:
                raise Killed
            given = work(*arguments)
            if dies:
                raise Killed
            return given

        return done

    killed = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.records.transactions, "write", deadly(machine.records.transactions.write))
        patch.setattr(server.launcher, "start", deadly(server.launcher.start))
        patch.setattr(server.launcher, "adopt", deadly(server.launcher.adopt))
        try:
            server.finish()
        except Killed:
            killed = True
    machine.living.discard(server.name)
    Server(machine).finish()
    check_ends(machine)
    return killed


def check_ends(machine: Machine) -> None:
    """Every job came to its one end, begun once or cancelled because it came too late."""
    jobs = ("a", "b", "c", "late")
    begun = [job for job in jobs if machine.know(job).intent is not None]
    assert sorted(machine.ran) == begun
    assert {"a", "b", "c"} <= set(begun)
    assert machine.most <= 2
    for job in jobs:
        record = machine.know(job)
        assert [entry.kind for entry in record.entries].count("intent") == (job in begun)
        assert (record.state, record.torn_down) == (State.SUCCEEDED if job in begun else State.CANCELLED, True)


@pytest.mark.parametrize("death", ["start", "check in", "begin"])
def test_a_driver_that_dies_before_it_begins_is_followed_by_another(machine: Machine, death: str) -> None:
    hand_in(machine, "a")
    machine.deaths = {"a": [death, death]}
    server = Server(machine)
    server.finish()
    assert (server.launcher.started, machine.ran, machine.know("a").state) == (["a"] * 3, ["a"], State.SUCCEEDED)


def test_after_three_tries_a_job_has_failed_and_says_of_what(machine: Machine) -> None:
    hand_in(machine, "a", "b")
    machine.deaths = {"a": ["trouble"] * 9}
    server = Server(machine, drivers=1)
    server.finish()
    assert server.launcher.started.count("a") == 3
    # While one waits for its next try, the next one has its turn.
    assert server.launcher.started[1] == "b"
    outcome = machine.know("a").outcome
    assert outcome is not None
    assert (outcome.state, outcome.message) == (State.FAILED, "the job could not be begun in 3 tries: no cloud")


def test_what_can_never_be_begun_fails_at_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in(machine, "a", "b")
    server = Server(machine, drivers=1)

    def start(job: Waiting) -> Process:
        if job.job_id == "a":
            raise UsageError("sealed by another key", where="a")
        return machine.drive(job.job_id)

    monkeypatch.setattr(server.launcher, "start", start)
    server.step()
    outcome = machine.know("a").outcome
    assert outcome is not None
    assert (outcome.state, outcome.message) == (
        State.FAILED,
        "the job could not be begun: a: sealed by another key",
    )
    server.finish()
    assert machine.ran == ["b"]


def test_what_cannot_be_started_is_tried_again(machine: Machine) -> None:
    hand_in(machine, "a")
    server = Server(machine, launcher=Launcher(machine, refuse=2))
    server.finish()
    assert (server.launcher.started, machine.ran) == (["a"] * 3, ["a"])


def test_a_begun_job_whose_driver_died_is_taken_over_once(machine: Machine) -> None:
    hand_in(machine, "a")
    machine.deaths = {"a": ["train"]}
    server = Server(machine)
    server.finish()
    assert [one.name.partition("-")[0] for one in machine.processes] == ["driver", "adopter"]
    assert (machine.ran, machine.know("a").state) == (["a"], State.SUCCEEDED)


def test_a_job_that_nobody_can_take_over_keeps_no_other_from_its_turn(machine: Machine) -> None:
    hand_in(machine, "a", "b")
    machine.deaths = {"a": ["train"]}
    server = Server(machine, drivers=1, launcher=Launcher(machine, refuse_adoption=3))
    server.finish()
    assert machine.ran == ["a", "b"]
    ended = {job: machine.know(job).times[State.SUCCEEDED] for job in "ab"}
    # A try at once, then after 30, 120 and 480 seconds.
    assert 600 < (ended["a"] - ended["b"]).total_seconds() < 660


def test_a_job_that_was_cancelled_while_its_driver_came_up_is_not_begun(machine: Machine) -> None:
    hand_in(machine, "a")
    server = Server(machine)
    server.step()
    machine.run()
    assert machine.submissions.cancel("a", "ana@example.com")
    server.finish()
    for _ in range(3):
        machine.run()
    assert (machine.ran, machine.know("a").state) == ([], State.CANCELLED)
    assert not any(one.living for one in machine.processes)


def test_two_servers_at_once_begin_each_job_once(machine: Machine) -> None:
    hand_in(machine, *(f"job_{number}" for number in range(4)))
    first, second = Server(machine), Server(machine)
    for _ in range(PATIENCE):
        first.step()
        second.step()
        machine.run()
        if not machine.submissions.open("e"):
            break
    assert sorted(machine.ran) == [f"job_{number}" for number in range(4)]
    assert sorted(first.launcher.started + second.launcher.started) == sorted(machine.ran)


def test_the_thread_begins_what_comes_and_survives_what_it_cannot_do(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(machine)
    started, real = threading.Event(), machine.submissions.open
    troubles = iter([EngineError("the record is away"), RuntimeError("a bug")])

    def opened(environment: str) -> list[Waiting]:
        for trouble in troubles:
            server.dispatcher.wake()
            raise trouble
        return real(environment)

    def start(job: Waiting) -> Process:
        started.set()
        return machine.drive(job.job_id)

    monkeypatch.setattr(machine.submissions, "open", opened)
    monkeypatch.setattr(server.launcher, "start", start)
    machine.me = server.name
    hand_in(machine, "a")
    server.dispatcher.start()
    assert started.wait(20)
    server.dispatcher.close()
    assert caplog.text.count("could not be looked at") == 2
    hand_in(machine, "b")
    server.dispatcher.wake()
    assert [one.job for one in machine.processes] == ["a"]
