"""What trials share: a sandbox with its environment up, one reaper for all of them, and who was killed when."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import TYPE_CHECKING, Protocol

from encamp.plan.names import pool_name, short_name
from harness.cases import SERVERS
from harness.front import Front
from harness.listing import PROJECT
from harness.victims import kill

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout

#: A server takes a moment to come back, and what it broke shows a moment later.
_AFTERMATH_SECONDS = 20.0
#: What the reaper says of a job that it has not brought to its end.
_UNFINISHED = re.compile(r": (left alone|not brought to its end|would be)")
#: A pass that says so has looked at no job, or not at all of them.
_BROKEN = re.compile(r"^(Traceback \(most recent call last\)|error: )", re.MULTILINE)


#: What the replicas run on; a pool's name ends in it and has the least room for a job's id.
MACHINE = "n1-standard-4"
#: Longer than an engine is silent here, however busy the machine is.
PATIENCE = {"ENCAMP_STALL_SECONDS": "60"}


class Command(Protocol):
    """A started ``encamp``."""

    process: subprocess.Popen[bytes]

    def said(self) -> str: ...

    def ends(self, code: int) -> str: ...


class Camp(Protocol):
    """A sandbox with its environment up, and ``encamp`` in it."""

    layout: Layout

    def start(self, *arguments: str, **variables: str) -> Command: ...


class Gate:
    """Lets many in at a time, or one alone; who wants to be alone goes before who comes later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._many = 0
        self._waiting = 0
        self._alone = False

    @contextlib.contextmanager
    def passed(self, *, alone: bool) -> Iterator[None]:
        """Inside, alone or among others."""
        with self._changed:
            self._waiting += alone
            self._changed.wait_for(lambda: not self._alone and (self._many == 0 if alone else self._waiting == 0))
            self._waiting -= alone
            self._alone = alone
            self._many += not alone
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._many -= not alone
                self._changed.notify_all()


class Ground:
    """One sandbox, as many trials as there are at a time.

    Args:
        write_job: writes the job file of a master and a worker into a folder; gives its path.
        folder: for what trials need on disk.
        apart: whether a job for which a server is killed has no other driver beside it, so that every job meets its
            own case; otherwise a server dies for all jobs that are there.
    """

    def __init__(self, camp: Camp, write_job: Callable[..., str], folder: Path, *, apart: bool = False) -> None:
        self.layout = camp.layout
        self.front = Front(camp.layout)
        self.reaper = Reaper(camp)
        self._camp = camp
        self._run = f"{int(time.time()) % 16**3:03x}"
        self._killed: list[float] = []
        self._gate = Gate()
        self._apart = apart
        self._files: dict[bool, str] = {}
        for succeeds, code in ((True, 0), (False, 3)):
            own = folder / str(code)
            own.mkdir()
            acts = (f"chief-0=exit:{code}:3", "worker-0=exit:0:2")
            self._files[succeeds] = write_job(own, *acts, workerCount=1, masterType=MACHINE, workerType=MACHINE)

    def job_id(self, seed: int | str) -> str:
        """A job id that was never used: lowercase letters and digits, and so few that every cloud name holds them."""
        job = f"s{seed}x{self._run}"
        pool = pool_name(short_name(PROJECT, "sandbox", job), MACHINE)
        assert job in pool, f"the node pool {pool} does not hold the job id {job}: take smaller seeds"
        return job

    def driving(self, victim: str) -> contextlib.AbstractContextManager[None]:
        """For as long as the driver of a trial with this victim lives."""
        return self._gate.passed(alone=self._apart and victim in SERVERS)

    def start(self, job: str, *, succeeds: bool) -> Command:
        """Start a job's driver."""
        return self._camp.start("run", self._files[succeeds], "--job-id", job, **PATIENCE)

    def kill(self, victim: str, driver: int) -> bool:
        """Kill somebody; False where they do not live."""
        if victim in SERVERS:
            self._killed.append(time.time())
        return kill(victim, driver, self.layout)

    def disturbed(self, began: float, ended: float) -> bool:
        """Whether a server was killed between two times, by whichever trial."""
        return any(began - _AFTERMATH_SECONDS < at < ended for at in self._killed)

    def close(self) -> None:
        self.reaper.close()
        self.front.close()


class Reaper:
    """``encamp reap``, again and again for as long as somebody waits for it."""

    def __init__(self, camp: Camp) -> None:
        self._camp = camp
        self._changed = threading.Condition()
        self._begun = self._done = self._wanted = 0
        self._said: list[str] = []
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="reaper", daemon=True)
        self._thread.start()

    def reaped(self, job: str) -> bool:
        """Wait for a pass that begins after now; whether it left nothing of a job to do."""
        with self._changed:
            number = self._begun + 1
            self._wanted = max(self._wanted, number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= number or self._closed)
            said = self._said[number - 1] if self._done >= number else f"{job}: left alone: the reaper was closed"
        return _BROKEN.search(said) is None and not any(
            line.startswith(f"{job}:") and _UNFINISHED.search(line) for line in said.splitlines()
        )

    def said_of(self, job: str) -> str:
        """Every pass that named a job."""
        with self._changed:
            told = (said for said in self._said if job in said or _BROKEN.search(said))
            return "\n--- reap\n".join(["", *told])

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted > self._done or self._closed)
                if self._closed:
                    return
                self._begun += 1
            command = self._camp.start("reap", **PATIENCE)
            command.process.wait()
            with self._changed:
                self._done = self._begun
                self._said.append(command.said())
                self._changed.notify_all()
