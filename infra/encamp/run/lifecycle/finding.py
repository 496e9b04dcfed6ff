"""The reaper's finding about each job that it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp.errors import EncampError
    from encamp.run.lifecycle.ending import RunResult


class Verdict(StrEnum):
    """The reaper's action, or the one that a dry run reports."""

    ENDED = "brought to its end"
    WOULD_END = "would be brought to its end"
    HELD = "left alone"
    FAILED = "not brought to its end"
    EXPIRED = "its results are deleted"
    WOULD_EXPIRE = "its results would be deleted"
    SEALED = "its logs are stored"
    WOULD_SEAL = "its logs would be stored"
    SET_ASIDE = "its unreadable state is set aside"
    WOULD_SET_ASIDE = "its unreadable state would be set aside"


@dataclass(frozen=True)
class Finding:
    """One job that the reaper looked at.

    Attributes:
        why: in plain words.
        resources: its resources: looked for in a dry run.
    """

    job: str
    verdict: Verdict
    why: str
    result: RunResult | None = None
    error: EncampError | None = None
    resources: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nothing was to be done."""
        return self.verdict is Verdict.HELD


def worst(findings: Iterable[Finding]) -> EncampError | None:
    """Return the error that decides the command's exit code, None if all went well."""
    errors = [finding.error for finding in findings if finding.error is not None]
    return next((error for error in errors if not isinstance(error, EngineError)), errors[0] if errors else None)
