"""Work by a few threads within a time limit: unfinished work is given up, and nobody waits for it."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = TypeVar("Result")


class Deadline:
    """A time by which work must be done.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, none once it has passed."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise if the time has passed, for work that has several steps.

        Raises:
            TimeoutError: the time has passed.
        """
        if not self.left:
            raise TimeoutError(f"not done within {self.seconds:.0f} s")


class _Run(Generic[Result]):
    def __init__(self, jobs: Sequence[Callable[[], Result]]) -> None:
        self.waiting: queue.SimpleQueue[tuple[int, Callable[[], Result]]] = queue.SimpleQueue()
        for numbered in enumerate(jobs):
            self.waiting.put(numbered)
        self.results: list[Result | None] = [None] * len(jobs)
        self.errors: list[BaseException] = []

    def work(self, deadline: Deadline) -> None:
        while deadline.left:
            try:
                index, job = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self.results[index] = job()
            except BaseException as error:  # noqa: BLE001 - raised again where the work was asked for
                self.errors.append(error)
                return


def within(deadline: Deadline, jobs: Sequence[Callable[[], Result]], *, threads: int) -> list[Result | None]:
    """Return the results in the order of the jobs; None for those that the time did not suffice for.

    A job in flight at the end is left to itself, in a thread that does not keep the process; it should ask the deadline
    by itself now and then.
    """
    run = _Run(jobs)
    workers = [
        threading.Thread(target=run.work, args=(deadline,), name=f"bounded {index}", daemon=True)
        for index in range(min(threads, len(jobs)))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(deadline.left)
    if run.errors:
        raise run.errors[0]
    return list(run.results)
