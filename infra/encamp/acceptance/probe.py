"""Probes: small functions bound to a belief, which look at what Google serves and say what it did."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from encamp.acceptance import probes as probes_package
from encamp.acceptance.answers import BeliefAnswer, BeliefState, BrokenBeliefError, NotAskedError
from encamp.acceptance.cases import EndCase, EnvironmentCase, JobCase
from encamp.errors import EncampError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FOUND: list[Probe] = []


@dataclass(frozen=True)
class Probe:
    """One question to Google.

    Attributes:
        belief: id of the belief that it asks about.
        case: type of what it is given.
        ask: says what Google does where that is as believed; raises ``BrokenBeliefError`` or ``NotAskedError`` where
            it is not, or cannot be told.
        rungs: names of the only rungs that can answer; empty for every one.
    """

    belief: str
    case: type
    ask: Callable[[Any], str]
    rungs: frozenset[str] = frozenset()


def of_environment(belief: str) -> Callable[[Callable[[EnvironmentCase], str]], Callable[[EnvironmentCase], str]]:
    """Bind a function that looks at an environment that is up."""
    return _bind(belief, EnvironmentCase, frozenset())


def of_job(belief: str, *rungs: str) -> Callable[[Callable[[JobCase], str]], Callable[[JobCase], str]]:
    """Bind a function that looks at a job that has ended; ``rungs`` are the only ones that can answer."""
    return _bind(belief, JobCase, frozenset(rungs))


def of_end(belief: str) -> Callable[[Callable[[EndCase], str]], Callable[[EndCase], str]]:
    """Bind a function that looks at what is left in the end."""
    return _bind(belief, EndCase, frozenset())


def _bind(belief: str, case: type, rungs: frozenset[str]) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    def bound(ask: Callable[[Any], str]) -> Callable[[Any], str]:
        _FOUND.append(Probe(belief, case, ask, rungs))
        return ask

    return bound


@cache
def probes() -> tuple[Probe, ...]:
    """Return every probe of the modules of ``probes/``, by belief."""
    for module in pkgutil.iter_modules(probes_package.__path__):
        importlib.import_module(f"{probes_package.__name__}.{module.name}")
    return tuple(sorted(_FOUND, key=lambda probe: probe.belief))


def ask_all(case: EnvironmentCase | JobCase | EndCase, place: str, rung: str = "") -> Iterator[BeliefAnswer]:
    """Put every question that a case can answer; ``rung`` names the job's."""
    for probe in probes():
        if isinstance(case, probe.case) and (not probe.rungs or rung in probe.rungs):
            yield ask(probe, case, place)


def ask(probe: Probe, case: Any, place: str) -> BeliefAnswer:
    """Put one question; whatever happens, there is an answer."""
    try:
        return BeliefAnswer(probe.belief, BeliefState.HELD, place, probe.ask(case))
    except BrokenBeliefError as error:
        return BeliefAnswer(probe.belief, BeliefState.BROKEN, place, str(error))
    except NotAskedError as error:
        return BeliefAnswer(probe.belief, BeliefState.NOT_ASKED, place, str(error))
    except EncampError as error:
        return BeliefAnswer(probe.belief, BeliefState.NOT_ASKED, place, error.what)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        # An answer of a shape that the probe does not know ends neither the run nor its tear-down.
        why = f"what was served could not be read: {type(error).__name__}: {error}"
        return BeliefAnswer(probe.belief, BeliefState.NOT_ASKED, place, why)
