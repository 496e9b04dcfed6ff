"""The one port to search methods: from all data of a study to the next values.

A search keeps nothing: the same study and the same trials give the same values in every process, so that whoever goes
on with a study after its driver's end goes on as that would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.tuning.model import Trial, Value


@dataclass(frozen=True)
class Suggestion:
    """The next values.

    ``parent`` is the number of the trial whose checkpoint to start from, None but in a population.
    """

    values: Mapping[str, Value]
    parent: int | None = None


class Search(Protocol):
    """A search method over one study."""

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        """Return what to try next.

        Fewer where nothing new is left to try (a grid that is done), or where trials that run must end before more can
        be said (a population).

        Args:
            trials: all of the study, those that still run and those of jobs that it resumes among them, by number.
            count: how many at most.
        """
        ...

    def exhausted(self, trials: Sequence[Trial]) -> bool:
        """Whether nothing new will ever be left to try."""
        ...
