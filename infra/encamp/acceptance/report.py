"""The report of a run: Google's behaviour, belief by belief; Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.answers import BeliefState, overall
from encamp.acceptance.ladder import LADDER
from encamp.acceptance.probe import probes
from encamp.beliefs.table import beliefs
from encamp.text import table_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.acceptance.cost import PlannedLadder
    from encamp.acceptance.run import AcceptanceResult
    from encamp.beliefs.model import Belief

MARKDOWN: Final = "report.md"
JSON: Final = "report.json"
#: Goes up with every change of the JSON form that a reader has to know of.
FORMAT: Final = 1


def write_report(result: AcceptanceResult, ladder: PlannedLadder, project: str, folder: Path) -> tuple[Path, Path]:
    """Write both forms into a folder; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    document = report_document(result, ladder, project)
    markdown, data = folder / MARKDOWN, folder / JSON
    markdown.write_text(report_markdown(document), encoding="utf-8")
    data.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return markdown, data


def report_document(result: AcceptanceResult, ladder: PlannedLadder, project: str) -> dict[str, Any]:
    """Return the report as JSON data; every belief of the table is in it."""
    progress = result.progress
    found = overall(progress.answers)
    asked = {probe.belief for probe in probes()}
    return {
        "format": FORMAT,
        "run": progress.run,
        "stack": progress.stack,
        "project": project,
        "started": _utc(progress.started),
        "ended": _utc(result.ended),
        "exitCode": int(result.exit_code),
        "error": str(result.error) if result.error is not None else None,
        "tearDownError": str(result.teardown_error) if result.teardown_error is not None else None,
        "left": list(result.left),
        "cost": {**asdict(ladder.cost), "receipts": _receipts(result)},
        "rungs": [{"rung": name, **asdict(one)} for name, one in progress.rungs.items()],
        "leftOut": [{"rung": name, "why": why} for name, why in ladder.left_out],
        "beliefs": [_belief(belief, found, asked) for belief in beliefs().values()],
    }


def _belief(belief: Belief, found: Any, asked: set[str]) -> dict[str, Any]:
    state, answers = found.get(belief.id, (BeliefState.NOT_ASKED, ()))
    why = "no step of this run could ask" if belief.id in asked else _no_probe(belief)
    return {
        "id": belief.id,
        "area": belief.area,
        "says": belief.says,
        "source": belief.source,
        "sure": str(belief.sure),
        "state": str(state),
        "answers": [{"place": one.place, "state": str(one.state), "saw": one.saw} for one in answers],
        **({} if answers else {"why": why}),
    }


def _no_probe(belief: Belief) -> str:
    return f"ask by hand: {belief.probe}" if belief.probe else "no way to ask is known"


def _receipts(result: AcceptanceResult) -> float:
    """Return the total of the rungs' jobs by their receipts, in USD."""
    return round(sum(one.cost or 0.0 for one in result.progress.rungs.values()), 2)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def report_markdown(document: dict[str, Any]) -> str:
    """Return the report for people: broken beliefs first."""
    return "\n".join((*_head(document), *_rungs(document), *_broken(document), *_areas(document)))


def _head(document: dict[str, Any]) -> Iterator[str]:
    counts = {state: sum(one["state"] == state for one in document["beliefs"]) for state in map(str, BeliefState)}
    cost = document["cost"]
    yield f"# Acceptance of {document['stack']} in {document['project']}"
    yield ""
    yield f"Run `{document['run']}`, {document['started']} to {document['ended']}, exit code {document['exitCode']}."
    yield ""
    yield f"**{counts['held']} beliefs held, {counts['broken']} are broken, {counts['not asked']} were not asked.**"
    yield ""
    yield (
        f"Cost: at worst {cost['worst']:.2f} USD, expected {cost['expected']:.2f} USD; by their receipts the jobs cost "
        f"{cost['receipts']:.2f} USD, without the environment."
    )
    yield ""
    for title, value in (("Error", document["error"]), ("Tear-down failed", document["tearDownError"])):
        if value:
            yield f"{title}: {value}"
            yield ""
    yield f"Left: {', '.join(document['left']) or 'nothing'}."
    yield ""


def _rungs(document: dict[str, Any]) -> Iterator[str]:
    shows = {rung.name: rung.shows for rung in LADDER}
    yield "## Rungs"
    yield ""
    yield "| rung | shows | job | ended | as believed | seconds | USD |"
    yield "|---|---|---|---|---|---|---|"
    for one in document["rungs"]:
        ended = one["trouble"] or one["state"] or "not run"
        cost = "" if one["cost"] is None else f"{one['cost']:.2f}"
        believed = "yes" if one["as_believed"] else "**no**"
        seconds = f"{one['seconds']:.0f}"
        yield table_line(one["rung"], shows.get(one["rung"], ""), one["job"], ended, believed, seconds, cost)
    for one in document["leftOut"]:
        yield table_line(one["rung"], shows.get(one["rung"], ""), "", f"left out: {one['why']}", "", "", "")
    yield ""


def _broken(document: dict[str, Any]) -> Iterator[str]:
    found = [one for one in document["beliefs"] if one["state"] == BeliefState.BROKEN]
    if not found:
        return
    yield "## Broken beliefs"
    yield ""
    for one in found:
        yield f"### `{one['id']}`"
        yield ""
        yield f"Believed ({one['sure']}, {one['source']}): {one['says']}"
        yield ""
        yield from (f"- {answer['place']}, {answer['state']}: {answer['saw']}" for answer in one["answers"])
        yield ""


def _areas(document: dict[str, Any]) -> Iterator[str]:
    for area, members in groupby(document["beliefs"], key=lambda one: one["area"]):
        yield f"## {area}"
        yield ""
        yield "| belief | says | what Google did |"
        yield "|---|---|---|"
        for one in members:
            saw = "; ".join(f"{answer['place']}: {answer['saw']}" for answer in one["answers"]) or one["why"]
            yield table_line(f"`{one['id']}`", one["says"], f"**{one['state']}**: {saw}")
        yield ""
