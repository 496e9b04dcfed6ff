"""A stack that exists keeps the names under which it was made, whatever names are made of by then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from encamp.plan.names import former_name, short_name
from encamp.run.engine.workspace import make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

JOB = "kept_name"
WHOSE = ("sandbox-encamp", "sandbox", JOB)


def test_a_job_of_before_keeps_its_name_and_its_buckets(camp: Camp, job: Callable[..., str], tmp_path: Path) -> None:
    given = yaml.safe_load(Path(job("chief-0=sleep")).read_text())
    config = {
        "encamp:environmentStack": "sandbox",
        "encamp:job": {**given, "jobId": JOB},
        "encamp:jobFolder": str(tmp_path),
    }

    def pulumi(*words: str) -> str:
        return camp.pulumi("-C", str(tmp_path / "stack"), *words)

    # As a version before would have made it.
    make_workspace(tmp_path / "stack", JOB, {**config, "encamp:name": former_name(*WHOSE)})
    pulumi("stack", "init", JOB)
    pulumi("up", "-s", JOB, "--yes", "--skip-preview")
    try:
        make_workspace(tmp_path / "stack", JOB, config)
        said = pulumi("preview", "-s", JOB, "--expect-no-changes", "--non-interactive")
        assert former_name(*WHOSE) in said
        assert short_name(*WHOSE) not in said
    finally:
        pulumi("destroy", "-s", JOB, "--yes", "--skip-preview")
        pulumi("stack", "rm", "-s", JOB, "--yes")
    buckets = [bucket["name"] for bucket in camp.storage().buckets("sandbox-encamp")]
    assert [name for name in buckets if name.startswith(former_name(*WHOSE))] == []
