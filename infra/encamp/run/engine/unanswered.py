"""Creates without an answer: the cloud is asked whether they happened, and what they made is deleted.

An engine keeps a create that it never heard of again as pending, and forgets one that failed. Both may have been done:
the answer was lost, or came too late. What is there would stand in the way of the next attempt, and after it cost money
without anybody knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.kinds.words import word_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from encamp.cloud.leftovers import Leftover


@dataclass(frozen=True)
class Unanswered:
    """A create without an answer.

    Attributes:
        type: the engine's type token.
        name: the logical name.
        cloud: what the cloud would call it, empty if the cloud was to choose.
        urn: the engine's name of it.
        inputs: its inputs.
    """

    type: str
    name: str
    cloud: str
    urn: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @classmethod
    def of(cls, kind: str, urn: str, inputs: Mapping[str, Any]) -> Unanswered:
        """Return the create of these inputs; ``kind`` is the engine's type token."""
        metadata = inputs.get("metadata") or {}
        cloud = inputs.get("name") or inputs.get("accountId") or metadata.get("name") or ""
        return cls(kind, urn.rpartition("::")[2], str(cloud), urn, inputs)

    def made(self, found: Iterable[Leftover]) -> list[Leftover]:
        """Return what it created, among all that the cloud lists: things of its kind and name.

        Several things of a job have one name: its JobSet, its accounts, its network policy.
        """
        kind = word_of(self.type)
        return [one for one in found if self.cloud and one.kind == kind and _short(one.name) == self.cloud]


def settle(
    creates: Iterable[Unanswered],
    *,
    known: Collection[str],
    found: Collection[Leftover],
    show: Callable[[str], None],
    delete: Callable[[Leftover], None],
) -> list[Unanswered]:
    """Delete what creates without an answer made; returns those of which the cloud lists nothing.

    Args:
        creates: what was asked for.
        known: logical names of what the engine's state lists; such a create was answered later.
        found: what the cloud lists of the job.
        show: gets a line for people.
        delete: deletes a thing.
    """
    unseen: list[Unanswered] = []
    for create in creates:
        if create.name in known:
            continue
        made = create.made(found)
        for thing in made:
            show(f"{create} had no answer when it was created, and exists: deleting {thing}")
            delete(thing)
        if not made:
            unseen.append(create)
    return unseen


def _short(name: str) -> str:
    """Return the last part of a full name, of an account's e-mail what stands before the project."""
    return name.rpartition("/")[2].partition("@")[0]
