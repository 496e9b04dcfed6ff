"""How much of a job's steps is shown, and what a driver's log keeps of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from encamp.cli.attach import _Steps
from encamp.cli.lines import Lines
from encamp.cli.verbosity import Verbosity
from encamp.errors import UsageError
from encamp.run.detail import Detail

if TYPE_CHECKING:
    from pathlib import Path

STATE, RESOURCE, REPLICA = "the job is RUNNING", "created container NodePool n1", "master-replica-0 | epoch 1"
SHOWN: dict[Verbosity, list[str]] = {
    Verbosity.QUIET: [],
    Verbosity.SHORT: [STATE, REPLICA],
    Verbosity.VERBOSE: [STATE, RESOURCE, REPLICA],
}


def _without_times(text: str) -> list[str]:
    return [line.partition("] ")[2] or line for line in text.splitlines()]


@pytest.mark.parametrize("verbosity", Verbosity)
def test_a_driver_and_who_attaches_to_it_show_what_was_asked_for(
    verbosity: Verbosity, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines(verbosity)
    lines.keep(tmp_path / "driver.log")
    lines.show(STATE)
    lines.show(Detail(RESOURCE))
    lines.log("master-replica-0", "epoch 1")
    assert lines._kept is not None
    lines._kept.close()
    assert _without_times(capsys.readouterr().out) == SHOWN[verbosity]
    steps = _Steps(datetime.now(UTC), verbosity)
    for line in (tmp_path / "driver.log").read_text().splitlines():
        steps.kept(line)
    assert _without_times(capsys.readouterr().out) == [line for line in SHOWN[verbosity] if line != REPLICA]


def test_what_was_written_beside_the_steps_is_shown_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    for verbosity in Verbosity:
        _Steps(datetime.now(UTC), verbosity).kept("Traceback of something")
    assert capsys.readouterr().out == "Traceback of something\n" * 2


def test_verbose_and_quiet_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="contradict"):
        Verbosity.of(verbose=True, quiet=True)
