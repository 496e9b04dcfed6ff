"""Leases: what others hold is not touched."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from encamp.run.lifecycle.reap import ReapOptions, Verdict, reap

if TYPE_CHECKING:
    from tests.run.lifecycle.reap.ground import Ground


pytestmark = pytest.mark.slow


def test_what_another_driver_or_environment_holds_is_not_touched(ground: Ground) -> None:
    ground.record(environment="other")
    ground.furnish()
    ground.world.trains(0)
    assert [one.verdict for one in reap(ground.world.context, "sandbox")] == [Verdict.HELD]
    assert "scratch" in ground.google.buckets
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    (finding,) = reap(ground.world.context, "sandbox", ReapOptions(job="job_1"))
    assert (finding.verdict, "scratch" in ground.google.buckets) == (Verdict.HELD, True)
    records.release(lease)
    records.close()


def test_a_lease_that_is_lost_on_the_way_stops_the_tear_down(ground: Ground) -> None:
    ground.record()
    ground.furnish()
    ground.stack("job-j", resources=["bucket"])
    ground.world.trains(0)

    def taken(_: Any) -> None:
        with contextlib.closing(sqlite3.connect(ground.world.folder / "own" / "records.sqlite3")) as database:
            database.execute("UPDATE leases SET fence = fence + 1")
            database.commit()

    ground.google.troubles.append(("POST /upload.*manifest", taken))
    finding = ground.reap()
    assert (finding.verdict, "adopted this job" in finding.why) == (Verdict.FAILED, True)
    assert ("scratch" in ground.google.buckets, "job-j" in ground.world.stacks) == (True, True)
    assert not any(" destroy " in call for call in ground.world.calls)
