"""The page about tuning: its job can be planned, its Python runs as far as it goes, and its commands are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from encamp.plan.job import plan_job
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tuning.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}[^\n]*\n(.*?)```", TEXT, re.DOTALL)


def test_the_job_on_the_page_is_a_study(environment: EnvironmentSpec) -> None:
    (written,) = blocks("yaml")
    study = plan_job(parse_job(yaml.safe_load(written), source="docs/tuning.md").named("job").job, environment).study
    assert study is not None
    assert (study.metric, study.max_trials, study.max_parallel_trials) == ("accuracy", 30, 3)
    assert [one.name for one in study.parameters] == ["learning-rate", "layers", "batch-size", "optimizer"]


def test_the_trainers_on_the_page_are_python() -> None:
    found = blocks("python")
    assert len(found) == 2
    for text in found:
        compile(text, "docs/tuning.md", "exec")


def test_what_the_page_points_to_is_there() -> None:
    for path in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (ROOT / "docs" / path).is_file(), path
    for path in set(re.findall(r"examples/\S+\.yaml", TEXT)):
        assert (ROOT / path).is_file(), path
    assert "demo-tuning:" in (ROOT / "Makefile").read_text()
