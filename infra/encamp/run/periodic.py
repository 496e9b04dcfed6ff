"""Something that is done again and again beside whatever the main thread waits for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Periodic(ABC):
    """Takes its step in a thread of its own, for as long as the context lasts or until the step wants no more.

    Args:
        name: of the thread.
        seconds: between two steps; the first comes after as long.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._steps, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def step(self) -> bool:
        """Do one step, and return whether there is to be another."""

    def _steps(self) -> None:
        while not self._stop.wait(self._seconds) and self.step():
            pass
