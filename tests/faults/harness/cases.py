"""What is done to the job of a seed.

Every fourth seed kills at a random moment. The others go through all that can be done at the noted steps, in an order
that is shuffled once: who is killed, before or after which step; which answer goes wrong at which step. As many seeds
as there are such cases meet each of them once; further ones begin again, with other pauses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.steps import Step

DRIVER, ENGINE, LANGUAGE = "driver", "engine", "language host"
#: Processes of the sandbox, by their names in its status: the gcp provider is part of ``cloud``.
SERVERS = ("cloud", "kubernetes-provider", "storage")
VICTIMS = (DRIVER, ENGINE, LANGUAGE, *SERVERS)
HANG = "hang"
REFUSALS = ("429", "403", "409", "500", "stockout", "quota", "lost", HANG)
#: What no further attempt changes.
FINAL = ("403", "stockout", "quota")
BEFORE, AFTER = "before", "after"
#: The fault that holds a step up for a kill before or after it.
PAUSES = {BEFORE: "pause", AFTER: "pause-after"}
_POOL = "container:nodePools"
_RANDOM_EVERY = 4


@dataclass(frozen=True)
class Case:
    """What is done to one job.

    Attributes:
        victim: who is killed, empty for nobody.
        step: where; None at ``moment``, as a part of the time that the undisturbed run took.
        when: before or after the step is done.
        refusal: an answer that goes wrong, at ``refused``, ``count`` times.
        pause: seconds from the kill until the step goes on.
        succeeds: whether the trainer is one that succeeds.
    """

    seed: int
    victim: str = ""
    step: Step | None = None
    when: str = BEFORE
    moment: float = 0.0
    refusal: str = ""
    refused: Step | None = None
    count: int = 1
    pause: float = 0.0
    succeeds: bool = True

    @property
    def final(self) -> bool:
        """Whether the job is refused something for good, and has to fail of it."""
        return self.refusal in FINAL and self.refused is not None and self.refused.brings_up

    def __str__(self) -> str:
        parts = []
        if self.refusal:
            parts.append(f"{self.refusal} (x{self.count}) at {self.refused}")
        if self.victim and self.step:
            parts.append(f"{self.victim} killed {self.when} {self.step}")
        elif self.victim and self.refusal == HANG:
            parts.append(f"{self.victim} killed while it waits")
        elif self.victim:
            parts.append(f"{self.victim} killed at {self.moment:.2f} of the run")
        return f"seed {self.seed}: {'; '.join(parts)}; the trainer {'succeeds' if self.succeeds else 'fails'}"


def kills(steps: Sequence[Step]) -> list[tuple[str, Step, str]]:
    """Every victim at every step at which it can be there, before and after it."""
    return [
        (victim, step, when)
        for victim, step, when in itertools.product(VICTIMS, steps, (BEFORE, AFTER))
        if _is_there(victim, step)
    ]


def refusals(steps: Sequence[Step]) -> list[tuple[str, Step]]:
    """Every wrong answer at every step of the engine's at which Google gives it."""
    return [(kind, step) for kind, step in itertools.product(REFUSALS, steps) if _is_given(kind, step)]


def case_of(seed: int, steps: Sequence[Step]) -> Case:
    """What is done to the job of a seed."""
    random = Random(seed)  # noqa: S311 - a test's choice
    succeeds = random.random() < 0.75
    pause = random.choice((0.0, 0.3, 1.5))
    if seed % _RANDOM_EVERY == _RANDOM_EVERY - 1:
        victim = random.choice((DRIVER, DRIVER, ENGINE, *SERVERS))
        return Case(seed, victim, moment=random.random(), succeeds=succeeds)
    every = [*kills(steps), *refusals(steps)]
    Random(0).shuffle(every)  # noqa: S311 - as above
    chosen = every[(seed - seed // _RANDOM_EVERY) % len(every)]
    if len(chosen) == 2:
        kind, step = chosen
        count, victim = random.choice((1, 1, 3)), random.choice(("", DRIVER))
        return refusal(seed, kind, step, victim=victim, count=count, succeeds=succeeds)
    return Case(seed, *chosen, pause=pause, succeeds=succeeds)


def refusal(seed: int, kind: str, step: Step, *, victim: str = DRIVER, count: int = 1, succeeds: bool = True) -> Case:
    """An answer that goes wrong; while one that never comes is waited for, a ``victim`` may die."""
    return Case(seed, victim if kind == HANG else "", refusal=kind, refused=step, count=count, succeeds=succeeds)


def subset(seed: int, steps: Sequence[Step]) -> list[Case]:
    """A few cases in which each victim and each wrong answer occurs.

    Wrong answers while a job is brought up have jobs of their own; those at a delete come together with a kill.
    """
    random = Random(seed)  # noqa: S311 - a test's choice
    by_kind = {kind: [step for other, step in refusals(steps) if other == kind] for kind in REFUSALS}
    deletes = ["409", "500", "429", "403", "lost", "409"]
    cases = []
    for number, (victim, kind) in enumerate(zip(VICTIMS, deletes, strict=True)):
        _, step, when = random.choice([one for one in kills(steps) if one[0] == victim])
        refused = random.choice([one for one in by_kind[kind] if one.operation == "delete" and one != step])
        cases.append(Case(number, victim, step, when, refusal=kind, refused=refused, succeeds=number % 3 != 2))
    for kind in ("stockout", "quota", "lost", "500", HANG):
        refused = random.choice([one for one in by_kind[kind] if one.brings_up])
        cases.append(refusal(len(cases), kind, refused, victim=""))
    cases.append(Case(len(cases), DRIVER, moment=random.random()))
    # Who has to be alone comes last, when the others' drivers have ended.
    return sorted(cases, key=lambda case: case.victim in SERVERS)


def _is_there(victim: str, step: Step) -> bool:
    if victim == LANGUAGE:
        return step.by_engine and step.operation == "create"
    return victim != ENGINE or step.by_engine


def _is_given(kind: str, step: Step) -> bool:
    if step.operation == "read" or not step.of_google:
        return False
    if kind in ("stockout", "quota"):
        return step.type == _POOL and step.operation == "create"
    return True
