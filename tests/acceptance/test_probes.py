"""Probes: each holds on what a truthful Google shows, and each lie is found by exactly the probe of its belief."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.acceptance.evidence import RUNGS, Evidence

from encamp.acceptance.answers import BeliefState, BrokenBeliefError, NotAskedError, expect
from encamp.acceptance.cases import EndCase, JobCase
from encamp.acceptance.probe import Probe, ask, ask_all, probes
from encamp.beliefs.table import beliefs
from encamp.errors import EngineError
from encamp_sandbox.lies.switches import all_lies

if TYPE_CHECKING:
    from encamp_sandbox.lies.model import Lie

LIES = all_lies("token")
OF_JOBS = {probe.belief: probe for probe in probes() if probe.case is JobCase}
#: Told in an object or in an answer that the evidence has; those of pods and of single calls need the sandbox.
TOLD = {
    belief: lie
    for belief, lie in LIES.items()
    if belief in OF_JOBS and (lie.objects or lie.path.endswith(("operations", "entries:list")))
}


def broken(rung: str, lie: Lie | None = None) -> set[str]:
    answers = ask_all(Evidence(rung, lie).case(), rung, rung)
    return {answer.belief for answer in answers if answer.state is BeliefState.BROKEN}


@pytest.mark.parametrize("rung", RUNGS)
def test_a_truthful_google_breaks_no_belief(rung: str) -> None:
    answers = list(ask_all(Evidence(rung).case(), rung, rung))
    assert {answer.belief: answer.saw for answer in answers if answer.state is BeliefState.BROKEN} == {}
    held = {answer.belief for answer in answers if answer.state is BeliefState.HELD}
    assert {belief for belief, probe in OF_JOBS.items() if rung in probe.rungs} <= held


@pytest.mark.parametrize("belief", TOLD)
def test_a_lie_is_found_by_the_probe_of_its_belief_and_by_no_other(belief: str) -> None:
    rung = min(OF_JOBS[belief].rungs, default="cpu")
    assert broken(rung, TOLD[belief]) == {belief}


def test_every_probe_asks_about_a_belief_that_says_so_and_has_a_lie() -> None:
    asked = {probe.belief for probe in probes()}
    assert asked - beliefs().keys() == set()
    assert [belief for belief in sorted(asked) if beliefs()[belief].probe is None] == []
    assert asked - LIES.keys() == UNTOLD
    assert LIES.keys() - asked == set()


#: What only the engine can be lied to about; see ``tests/main_job/test_acceptance.py``.
UNTOLD: set[str] = set()


def test_a_question_always_has_an_answer() -> None:
    def raising(error: Exception) -> Probe:
        def asks(_: object) -> str:
            raise error

        return Probe("a-belief", EndCase, asks)

    given = {
        BrokenBeliefError("another"): (BeliefState.BROKEN, "another"),
        NotAskedError("nothing there"): (BeliefState.NOT_ASKED, "nothing there"),
        EngineError("forbidden", hint="ask"): (BeliefState.NOT_ASKED, "forbidden"),
        KeyError("spec"): (BeliefState.NOT_ASKED, "what was served could not be read: KeyError: 'spec'"),
    }
    case = EndCase({}, {}, environment_gone=True)
    for error, (state, saw) in given.items():
        answer = ask(raising(error), case, "end")
        assert (answer.state, answer.saw, answer.place) == (state, saw, "end")
    with pytest.raises(RuntimeError):
        ask(raising(RuntimeError("a bug")), case, "end")


def test_what_google_says_is_shown_without_secrets() -> None:
    with pytest.raises(BrokenBeliefError) as caught:
        expect(
            False, "it leads to https://storage.googleapis.com/b/o?X-Goog-Signature=0123456789abcdef0123456789abcdef"
        )
    assert "0123456789abcdef0123456789abcdef" not in str(caught.value)


def test_what_is_left_in_the_end_breaks_the_belief_and_what_cannot_be_listed_is_said() -> None:
    def asked(left: dict[str, tuple[str, ...]], unknown: dict[str, str]) -> tuple[BeliefState, str]:
        answers = {one.belief: one for one in ask_all(EndCase(left, unknown, environment_gone=True), "end")}
        found = answers["teardown-nothing-is-left"]
        return found.state, found.saw

    assert asked({}, {})[0] is BeliefState.HELD
    assert asked({"bucket": ("b",)}, {"job x": "forbidden"}) == (BeliefState.BROKEN, "Google still lists bucket b")
    assert asked({}, {"job x": "forbidden"}) == (BeliefState.NOT_ASKED, "job x: forbidden")
