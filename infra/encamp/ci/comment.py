"""A review as one comment in Markdown: a table of all stacks, and the folded details of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.ci.steps import Does
from encamp.ci.touched import StackKind, Was
from encamp.kinds.objects import JOB_SET
from encamp.plan.declared import runs_the_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from encamp.ci.drift import Drifted
    from encamp.ci.offline import Offline
    from encamp.ci.review import Reviewed
    from encamp.ci.steps import Difference, Step
    from encamp.plan.cost.model import CostPlan

#: In bytes; GitHub takes comments of 65536 characters, and the workflow cuts one at 60000 bytes.
LONGEST = 60_000
_LONGEST_VALUE = 80
_SHOWN_BEFORE = 20
_MOST_DIFFERENCES = 12
_MOST_INPUTS = 40
_MOST_STEPS = 60
_MOST_REASONS = 5
_SIGNS = {Does.MAKES: "+", Does.CHANGES: "!", Does.REPLACES: "!", Does.DESTROYS: "-"}
_ORDER = (Does.DESTROYS, Does.REPLACES, Does.CHANGES, Does.MAKES)


def comment(reviewed: Sequence[Reviewed], *, base: str) -> str:
    """Return the comment; where it would be too long the content of new resources is left out, then details of stacks.

    Args:
        reviewed: every touched stack.
        base: what the change was compared with.
    """
    head = [f"### encamp: {_title(reviewed)}", ""]
    if not reviewed:
        return "\n".join([*head, f"Nothing that differs from {_code(base)} is read by a stack.", ""])
    table = [
        "| stack | made | changed | replaced | destroyed | cost, USD | findings |",
        "|---|---|---|---|---|---|---|",
        *(_row(one) for one in reviewed),
        "",
    ]
    for shows_content in (True, False):
        sections = ["\n".join(_section(one, shows_content=shows_content)) for one in reviewed]
        text = "\n".join([*head, *table, *sections])
        if len(text.encode()) <= LONGEST:
            return text
    while len(text.encode()) > LONGEST and sections:
        sections.pop()
        text = "\n".join([*head, *table, *sections, "_The rest is too long for a comment: see the workflow's log._"])
    return text


def drift_report(drifted: Sequence[Drifted]) -> str:
    """Return the report of drift, in the form of a comment or an issue."""
    lines = [
        f"### encamp: {_drifted(drifted)}",
        "",
    ]
    for one in drifted:
        if one.previewed is None:
            lines += [f"{_code(one.stack)} is not up.", ""]
        elif one.quiet:
            lines += [f"{_code(one.stack)} agrees with the cloud: {one.previewed.unchanged} resources.", ""]
        else:
            lines += [f"#### {_code(one.stack)}", ""]
            lines += _listed("**It could not be compared:**", one.previewed.errors)
            if one.previewed.steps:
                lines += [
                    f"`pulumi up --refresh -s {_plain(one.stack)}` would do:",
                    "",
                    *_folded(one.previewed.steps, shows_content=False),
                ]
    text = "\n".join(lines)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n"


def _drifted(drifted: Sequence[Drifted]) -> str:
    compared = [one for one in drifted if one.previewed is not None]
    apart = [one for one in compared if not one.quiet]
    return f"{len(apart)} of {len(compared)} stacks drifted"


def _title(reviewed: Sequence[Reviewed]) -> str:
    stacks = f"{len(reviewed)} stack{'s' * (len(reviewed) != 1)} touched" if reviewed else "no stack is touched"
    counted = {does: sum(step.does is does for one in reviewed for step in one.steps) for does in _ORDER}
    does = [f"{count} {kind}" for kind, count in counted.items() if count]
    wrong = sum(bool(one.refused or one.failed) for one in reviewed)
    return ", ".join([stacks, *does, *([f"{wrong} cannot be brought up"] if wrong else [])])


def _row(one: Reviewed) -> str:
    stack = one.touched.stack
    counted = [sum(step.does is does for step in one.steps) for does in reversed(_ORDER)]
    # Nothing is known of what was not looked at.
    shown = [str(count) if count else "" for count in counted] if one.previewed or one.steps else ["?"] * len(counted)
    findings = len(one.refused) + len(one.failed) + len(_warnings(one))
    name = (
        f"{_code(stack.name)} ({one.touched.was} {stack.kind})"
        if one.touched.was is not Was.CHANGED
        else (f"{_code(stack.name)} ({stack.kind})")
    )
    return f"| {name} | {' | '.join(shown)} | {_cost_cell(one)} | {findings or ''} |"


def _cost_cell(one: Reviewed) -> str:
    """Return the stack's cost before and after: a job's at worst, an environment's without jobs in a month."""
    before, after = _amount(one.before), _amount(one.after)
    if one.touched.stack.kind is StackKind.OTHER or (before is None and after is None):
        return ""
    what = "at worst" if one.touched.stack.kind is StackKind.JOB else "a month"
    if after is None:
        return f"{what} {before}, gone"
    if before is None or str(before) == str(after):
        return f"{what} {after}"
    change = "" if before.usd is None or after.usd is None else f" ({after.usd - before.usd:+.2f})"
    return f"{what} {before} → {after}{change}"


@dataclass(frozen=True)
class _Amount:
    """A cost that is counted, in US dollars; None if a price is not known."""

    usd: float | None

    def __str__(self) -> str:
        return _money(self.usd)


def _amount(found: Offline | None) -> _Amount | None:
    if found is None:
        return None
    if found.cost is not None:
        return _Amount(found.cost.worst_case)
    return _Amount(found.idle.monthly) if found.idle is not None else None


def _section(one: Reviewed, *, shows_content: bool) -> Iterator[str]:
    stack = one.touched.stack
    yield f"#### {_code(stack.name)}"
    reasons = [_code(path) for path in one.touched.because[:_MOST_REASONS]]
    more = len(one.touched.because) - len(reasons)
    yield f"Touched by {', '.join(reasons)}{f' and {more} more' if more else ''}."
    yield ""
    if one.note:
        yield f"> {stack.kind.capitalize()} {_code(stack.name)}: {one.note}."
        yield ""
    if one.ends_job:
        yield f"> **The job itself is {_ended(one)}.** {_spared(one)}"
        yield ""
    yield from _listed("**Refused by rules:**", one.refused)
    yield from _listed("**The preview failed:**", one.failed)
    yield from _listed("Warnings:", _warnings(one))
    yield from _listed("Encrypted in the stack's state, and not compared:", one.uncompared)
    if stack.kind is StackKind.JOB:
        yield from _costs(one)
    if one.steps:
        if one.failed:
            yield "What it had come to by then:"
            yield ""
        yield from _folded(one.steps, shows_content=shows_content)
    elif one.previewed is not None and not one.failed:
        yield f"Nothing would change ({one.previewed.unchanged} resources stay as they are)."
        yield ""


def _ended(one: Reviewed) -> str:
    return "replaced" if one.ending[0].does is Does.REPLACES else "destroyed"


def _spared(one: Reviewed) -> str:
    gone = [step for step in one.steps if step.does in (Does.REPLACES, Does.DESTROYS)]
    others = [step for step in gone if not runs_the_job(step.type, step.name)]
    if _ended(one) == "destroyed":
        return "If it still trains, it is ended."
    again = "If it still trains, it is ended and begins again from what it has saved."
    if one.ending[0].type != JOB_SET.token:
        again = "If trials of its study still run, they are ended."
    if others:
        which = ", ".join(_code(step.name) for step in others)
        return f"{again} Replaced or destroyed with it: {which}."
    return f"{again} No other resource is replaced or destroyed."


def _warnings(one: Reviewed) -> tuple[str, ...]:
    """Return warnings of plan and engine, each once; a program says again what its plan warns of."""
    said = [*(one.after.warnings if one.after else ()), *(one.previewed.warnings if one.previewed else ())]
    return tuple(dict.fromkeys(said))


def _costs(one: Reviewed) -> Iterator[str]:
    before = one.before.cost if one.before is not None else None
    after = one.after.cost if one.after is not None else None
    shown = after or before
    if shown is None:
        return
    yield "| USD | an hour | one run | at worst |"
    yield "|---|---|---|---|"
    for name, cost in (("before", before), ("after", after)):
        if cost is not None:
            yield f"| {name} | {_money(cost.hourly)} | {_one_run(cost)} | {_money(cost.worst_case)} |"
    yield ""
    yield f"By {shown.basis} ({_plain(shown.basis.source)})."
    yield ""


def _one_run(cost: CostPlan) -> str:
    """Return the cost of one run; a limit of the running time makes it a ceiling, and without one it is not known."""
    if cost.hourly is not None and cost.expected_seconds is None:
        return "length not known"
    return f"{'at most ' if cost.is_longest and cost.expected is not None else ''}{_money(cost.expected)}"


def _money(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:.2f}"


def _listed(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield title
        yield ""
        yield _fenced("\n".join(texts), "text")
        yield ""


def _folded(steps: Sequence[Step], *, shows_content: bool) -> Iterator[str]:
    ordered = sorted(steps, key=lambda step: _ORDER.index(step.does))
    lines = [line for step in ordered[:_MOST_STEPS] for line in _step(step, shows_content=shows_content)]
    if len(ordered) > _MOST_STEPS:
        lines.append(f"  and {len(ordered) - _MOST_STEPS} more")
    yield f"<details><summary>{len(steps)} resource{'s' * (len(steps) != 1)}</summary>"
    yield ""
    yield _fenced("\n".join(lines), "diff")
    yield ""
    yield "</details>"
    yield ""


def _step(step: Step, *, shows_content: bool) -> Iterator[str]:
    notes = [note for note, holds in (("protected", step.protected), ("stays in the cloud", step.kept)) if holds]
    said = f" ({', '.join(notes)})" if notes else ""
    yield f"{_SIGNS[step.does]} {step.does} {step.type} {step.name}{said}"
    yield from (f"    {_difference(one)}" for one in step.differences[:_MOST_DIFFERENCES])
    if len(step.differences) > _MOST_DIFFERENCES:
        yield f"    and {len(step.differences) - _MOST_DIFFERENCES} more"
    if shows_content:
        yield from (f"    {path}: {_short(value)}" for path, value in step.content[:_MOST_INPUTS])
        if len(step.content) > _MOST_INPUTS:
            yield f"    and {len(step.content) - _MOST_INPUTS} more"


def _difference(one: Difference) -> str:
    change = "differs" if one.old is one.new is None else " → ".join(_apart(one.old, one.new))
    return f"{one.path}: {change}{' (replaces)' if one.replaces else ''}"


def _apart(old: str | None, new: str | None) -> tuple[str, str]:
    """Return both values, long ones from shortly before the place where they begin to differ."""
    if old is None or new is None:
        return _short(old), _short(new)
    same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    begin = same - _SHOWN_BEFORE if max(len(old), len(new)) > _LONGEST_VALUE and same > _SHOWN_BEFORE else 0
    lead = "…" if begin else ""
    return f"{lead}{_short(old[begin:])}", f"{lead}{_short(new[begin:])}"


def _short(value: str | None) -> str:
    text = "nothing" if value is None else value
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _fenced(text: str, language: str) -> str:
    """Return a block that no text can break out of."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """Return a name as code; no file name or stack breaks out of it or of a table."""
    return f"`{_plain(text)}`"


def _plain(text: str) -> str:
    return re.sub(r"[`|<>\n\r]", "_", text)
