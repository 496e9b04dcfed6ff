"""Answers about beliefs: held, broken, or not asked, with what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from encamp.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class BeliefState(StrEnum):
    """The state of a belief, in the order in which the answers of several places outweigh each other."""

    BROKEN = "broken"
    HELD = "held"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class BeliefAnswer:
    """One belief at one place.

    Attributes:
        belief: id of the belief.
        place: rung or step of the run where Google was asked.
        saw: what Google did; for ``NOT_ASKED`` why it was not asked.
    """

    belief: str
    state: BeliefState
    place: str
    saw: str

    def to_json(self) -> dict[str, str]:
        """Return the form of the run's file and of the report."""
        return {"belief": self.belief, "state": str(self.state), "place": self.place, "saw": self.saw}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BeliefAnswer:
        """Return the answer that ``to_json`` wrote."""
        return cls(str(data["belief"]), BeliefState(data["state"]), str(data["place"]), str(data["saw"]))


class BrokenBeliefError(Exception):
    """Google does not do what the belief says; the message says what it does."""

    def __init__(self, saw: str) -> None:
        super().__init__(redacted(saw))


class NotAskedError(Exception):
    """The question could not be put; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(redacted(why))


def expect(held: object, saw: str) -> None:
    """Raise unless Google does as believed.

    Raises:
        BrokenBeliefError: it does not; ``saw`` says what it does.
    """
    if not held:
        raise BrokenBeliefError(saw)


def overall(answers: Iterable[BeliefAnswer]) -> Mapping[str, tuple[BeliefState, tuple[BeliefAnswer, ...]]]:
    """Return each belief's answers of all places, with the gravest state: broken before held before not asked."""
    found: dict[str, list[BeliefAnswer]] = {}
    for answer in answers:
        found.setdefault(answer.belief, []).append(answer)
    order = list(BeliefState)
    return {
        belief: (min((one.state for one in given), key=order.index), tuple(given)) for belief, given in found.items()
    }
