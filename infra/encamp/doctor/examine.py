"""Everything that is looked at for a stack, in the order in which it would fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cloud.buckets import Buckets
from encamp.cloud.projects import Projects
from encamp.cloud.resources import Container
from encamp.doctor import google, state
from encamp.doctor.machine import Machine, versions
from encamp.doctor.model import Finding, Grade, look
from encamp.doctor.stack import backend_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.doctor.stack import Stack


def examine(stack: Stack, repository: Path, client: GoogleClient, machine: Machine) -> list[Finding]:
    """Look at everything; nothing is changed.

    Where Google does not take the credentials, or there is no such project, it is not asked for the rest.
    """
    projects, buckets = Projects(client), Buckets(client)
    url = backend_url(repository, machine.environ)
    found = [
        *look("versions", lambda: versions(machine)),
        *look("credentials", lambda: google.project(stack, projects)),
    ]
    asked: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("state", lambda: state.backend(url, stack, buckets, machine.environ)),
        ("secrets", lambda: state.secrets(stack, projects, machine.environ)),
    ]
    if not any(each.grade is Grade.BAD and each.subject in {"credentials", "project"} for each in found):
        asked += [
            ("APIs", lambda: google.services(stack, projects)),
            ("rights", lambda: google.rights(stack, projects)),
            ("cluster", lambda: google.cluster(stack, Container(client))),
            ("quota", lambda: google.quota(stack, projects)),
            ("key", lambda: _adopted_key(stack, projects)),
        ]
    return [*found, *(each for subject, at in asked for each in look(subject, at))]


def _adopted_key(stack: Stack, projects: Projects) -> Iterator[Finding]:
    """The environment's own key, where it exists before the environment."""
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
