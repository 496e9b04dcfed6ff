"""All checks of a stack, in the order in which their problems would make it fail."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from encamp.backend import backend_url
from encamp.cloud.buckets import Buckets
from encamp.cloud.projects import Projects
from encamp.cloud.resources import Container
from encamp.doctor import google, limits, state
from encamp.doctor.machine import Machine, versions
from encamp.errors import EncampError
from encamp.findings import Finding, Grade
from encamp.plan.cost.prices import price_table
from encamp.preflight import check_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.doctor.stack import Stack

#: Google changes spot prices up to once a month, others a few times a year.
_OLD_DAYS = 180


def examine(
    stack: Stack, repository: Path, client: GoogleClient, machine: Machine, today: date | None = None
) -> list[Finding]:
    """Look at everything; nothing is changed.

    Where Google does not take the credentials, or there is no such project, it is not asked for the rest.
    """
    projects, buckets = Projects(client), Buckets(client)
    url = backend_url(repository, machine.environ)
    found = [
        *_look("versions", lambda: versions(machine)),
        *_look("credentials", lambda: google.project(stack, projects)),
    ]
    taken = not any(each.grade is Grade.BAD and each.subject in {"credentials", "project"} for each in found)
    asked: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("record", lambda: state.record(stack, machine.environ)),
        ("prices", lambda: _prices(stack, today or datetime.now(UTC).date())),
    ]
    if taken or not (url or "").startswith("gs://"):
        asked.append(("state", lambda: state.backend(url, stack, buckets, machine.environ)))
    if taken or not (stack.secrets_provider or "").startswith("gcpkms://"):
        asked.append(("secrets", lambda: state.secrets(stack, projects, machine.environ)))
    if taken:
        asked += [
            ("APIs", lambda: google.services(stack, projects)),
            ("rights", lambda: google.rights(stack, projects)),
            ("members", lambda: google.members(stack, projects)),
            ("cluster", lambda: google.cluster(stack, Container(client))),
            ("quota", lambda: google.quota(stack, projects)),
            *limits.looks(stack, client),
            ("key", lambda: _adopted_key(stack, projects)),
            ("data", lambda: _data(stack, client)),
        ]
    return [*found, *(each for subject, at in asked for each in _look(subject, at))]


def _prices(stack: Stack, today: date) -> Iterator[Finding]:
    """Whether costs are counted by prices of the region, and of late."""
    table = price_table(stack.spec)
    text = f"of {table.region}, {table.date} ({table.source})"
    old = (today - date.fromisoformat(table.date)).days
    if table.region != stack.spec.region:
        advice = f"name a table of {stack.spec.region} in `prices` of the environment"
        yield Finding("prices", Grade.NOTE, f"{text}, but the environment is in {stack.spec.region}", advice)
    elif old > _OLD_DAYS:
        yield Finding("prices", Grade.NOTE, f"{text}, {old} days old", "`encamp prices` prints them for correction")
    else:
        yield Finding("prices", Grade.OK, text)


def _data(stack: Stack, client: GoogleClient) -> Iterator[Finding]:
    """Examine a job's buckets and packages, as they are looked at before it is run."""
    if stack.job is None:
        return
    warnings = check_job(stack.job, client)
    for warning in warnings:
        yield Finding("data", Grade.NOTE, warning)
    if not warnings:
        yield Finding("data", Grade.OK, "the job's buckets and packages are there, and its account may use them")


def _adopted_key(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """Examine the environment's own key, where it exists before the environment."""
    plan = stack.environment.key
    if plan is None or (plan.ring is not None and stack.job is None):
        return
    found = projects.key(plan.full_name)
    if found is None:
        yield Finding("key", Grade.BAD, f"there is no key {plan.full_name}", "correct `encryption` of the environment")
    elif (state_ := (found.get("primary") or {}).get("state", "none")) != "ENABLED":
        yield Finding("key", Grade.BAD, f"the primary version of {plan.full_name} is {state_}", "enable or restore it")
    else:
        yield Finding("key", Grade.OK, f"{plan.full_name} is on")


def _look(subject: str, at: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check; a check that cannot be made is a finding too, and the others go on."""
    try:
        yield from at()
    except EncampError as error:
        place = f"{error.where}: " if error.where else ""
        yield Finding(subject, Grade.BAD, f"{place}{error.what}", error.hint or "")
