# ruff: noqa: INP001 - a script, not a package
"""``make soak``: kill whatever a run is made of, seed after seed, and count what is left behind.

    make soak SEEDS=0-99 JOBS=4

Seeds may be single ones and ranges, with commas. Every result is a line of a JSONL file outside the repository, so
that runs add up; a failure prints its seed, what was done, what was said, and how to run only that one again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "infra"), str(ROOT / "tests" / "faults")]

from tests.camp import opened_camp, write_job  # noqa: E402

from encamp.cli.out import say  # noqa: E402 - as below
from harness.cases import case_of, kills, refusals  # noqa: E402 - the tests' harness is no installed package
from harness.ground import Ground  # noqa: E402
from harness.trial import Result, Trial, note  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RESULTS = Path.home() / ".cache" / "encamp" / "soak.jsonl"


def main() -> int:
    """Run the seeds; 1 where anything was left, lost, touched or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("0-19"), help="such as 7 or 0-99 or 1,5,10-20")
    parser.add_argument("--jobs", type=int, default=4, help="how many jobs at once")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"JSONL file to add to (default {RESULTS})")
    parser.add_argument("--minutes", type=float, default=None, help="begin with no further seed after so long")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    done = []
    with given.results.open("a") as file:
        for result in run(given.seeds, given.jobs, given.minutes):
            done.append(result.json())
            file.write(f"{json.dumps(done[-1], sort_keys=True)}\n")
            file.flush()
            show(result)
    say(f"this run:  {summary(done)}")
    lines = given.results.read_text().splitlines()
    say(f"all runs:  {summary([json.loads(line) for line in lines])}  ({given.results})")
    return int(any(bad(one) for one in done))


def run(chosen: list[int], jobs: int, minutes: float | None) -> Iterator[Result]:
    """The results of seeds, as they come in the order of seeds."""
    end = time.monotonic() + minutes * 60 if minutes is not None else None
    with tempfile.TemporaryDirectory(prefix="encamp-soak-") as folder:
        place = Path(folder)
        outputs = place / "said"
        outputs.mkdir()
        with opened_camp(place / "sandbox", outputs) as camp:
            ground = Ground(camp, write_job, outputs)
            try:
                steps, seconds = note(ground)
                cases = len(kills(steps)) + len(refusals(steps))
                say(f"{len(steps)} steps noted in {seconds:.0f} s; {cases} cases of kills and wrong answers at them")

                def trial(seed: int) -> Result | None:
                    if end is not None and time.monotonic() > end:
                        return None
                    return Trial(case_of(seed, steps), ground, seconds).run()

                with ThreadPoolExecutor(jobs) as pool:
                    yield from filter(None, pool.map(trial, chosen))
            finally:
                ground.close()


def show(result: Result) -> None:
    """One line for a good one; for a bad one all that helps to find out."""
    verdict = "FAILED" if result.failed else "ok" if result.reached else "ok (not reached)"
    say(f"{verdict}: {result.case}: {result.outcome}, clean after {result.seconds:.0f} s")
    if result.failed:
        say(f"  left: {result.left}\n  lost: {result.lost}\n  wrong: {result.wrong}\n  touched: {result.touched}")
        say("  " + result.said.replace("\n", "\n  "))
        say(f"  again: make soak SEEDS={result.seed} JOBS=1")


def bad(result: dict[str, Any]) -> bool:
    """Whether anything is not as it has to be."""
    return bool(result["left"] or result["lost"] or result["wrong"] or result["touched"])


def summary(results: list[dict[str, Any]]) -> str:
    """What the runs add up to."""
    seconds = sorted(result["seconds"] for result in results) or [0.0]
    worst = seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]

    def count(of: Iterable[object]) -> int:
        return sum(map(bool, of))

    return (
        f"{len(results)} runs ({count(result['reached'] for result in results)} reached), "
        f"{count(result['left'] for result in results)} leaks, "
        f"{count(result['lost'] for result in results)} lost logs, "
        f"{count(result['wrong'] for result in results)} wrong outcomes, "
        f"{count(result['touched'] for result in results)} foreign touched, "
        f"clean after {statistics.median(seconds):.0f} s (median), {worst:.0f} s (p99)"
    )


def seeds(text: str) -> list[int]:
    """``1,5,10-20`` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    sys.exit(main())
