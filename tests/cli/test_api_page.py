"""The page on the jobs API against the command, the limits and the block that it tells of."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from encamp.api import batch
from encamp.api.connections import MOST_HEAD_BYTES, Limits
from encamp.api.documents import PATHS
from encamp.api.jobs import LARGEST_PAGE_BYTES
from encamp.api.limits import BODY_SECONDS, DEEPEST, LARGEST_BODY
from encamp.api.methods import METHODS
from encamp.api.places import STUCK_SECONDS, PlaceLimits
from encamp.api.planning import LARGEST_JOB_BYTES
from encamp.api.queue_limits import QueueLimits
from encamp.cli.serve import command
from encamp.plan.environment.api import PORT
from encamp.spec.environment import ApiSpec
from encamp.spec.rules.containers import MOST_ARGUMENT_BYTES

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text()


def section(page: str, title: str) -> str:
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_option_stands_in_its_table(page: str) -> None:
    options = {
        next(name for name in option.opts if name.startswith("--")): option
        for option in command.params
        if isinstance(option, click.Option)
    }
    rows = dict(re.findall(r"^\| `(--[a-z-]+)` \| (.*?) \|", section(page, "The command"), re.MULTILINE))
    assert rows.keys() == options.keys()
    for name in ("--host", "--port", "--stack"):
        assert rows[name] == f"`{options[name].default}`"
    assert f"{Limits().grace_seconds} s at most" in section(page, "The command")


def test_limits_are_the_servers(page: str) -> None:
    limits, places, queue = Limits(), PlaceLimits(), QueueLimits()
    table = section(page, "Limits")
    for text in (
        f"{MOST_HEAD_BYTES // 1024} KiB, within {limits.head_seconds:g} s",
        f"{LARGEST_BODY >> 20} MiB, {DEEPEST} levels deep, within {BODY_SECONDS:g} s",
        f"between two requests | {limits.idle_seconds} s",
        f"does not read its answer | {limits.stalled_seconds:g} s",
        f"connections | {limits.connections} |",
        f"requests at once | {places.work}, and {places.work} creates |",
        f"of one caller | {places.caller}, and {places.caller} creates |",
        f"{places.line} more of each wait up to {places.line_seconds:g} s",
        f"{MOST_ARGUMENT_BYTES >> 10} KiB, in job files too",
        f"a Job, as JSON | {LARGEST_JOB_BYTES >> 10} KiB |",
        f"jobs that wait | {queue.all}, and {queue.caller} of one caller",
        f"{LARGEST_PAGE_BYTES >> 20} MiB; of a filter",
    ):
        assert text in table
    block = ApiSpec.model_fields
    assert (block["waiting_jobs"].default, block["waiting_jobs_of_caller"].default) == (queue.all, queue.caller)
    assert f"taken for {STUCK_SECONDS:g} s" in table
    assert limits.body_seconds == BODY_SECONDS


def test_paths_fields_and_methods_that_it_names_are_there(page: str) -> None:
    assert f"{batch.MOST_PARTS} calls in one" in page
    assert set(re.findall(r"`(/[$a-z0-9./]+)(?:\?version=v1)?`", page)) == {*PATHS, *batch.PATHS, "/healthz", "/readyz"}
    fields = {info.alias or name for name, info in ApiSpec.model_fields.items()}
    named = set(re.findall(r"`api\.([a-zA-Z]+)`", page))
    assert named
    assert named <= fields
    assert f"port {PORT} alone" in page
    policies = set(re.findall(r"`(\w+IamPolicy)`", page))
    assert policies <= {method.id.rpartition(".")[2] for method in METHODS}
