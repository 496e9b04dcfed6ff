"""The page of environments: its fields are the models', and what it shows is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment
from encamp.spec.environment.reference import field_names, with_fields

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
SHOWN = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_of_environments_is_what_the_models_say(*, rewrite_goldens: bool) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if rewrite_goldens:
        PAGE.write_text(with_fields(page), encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
    assert page == with_fields(page)
    missing = {name for name in field_names() if f"`{name}`" not in page}
    assert missing == set()


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: block.strip().partition("\n")[0][:40])
def test_what_the_page_shows_can_be_made(block: str) -> None:
    written = yaml.safe_load(block)
    config = written.get("config", {"encamp:environment": written})
    least = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    spec = parse_environment(least | config["encamp:environment"], project="my-project", source="docs/environments.md")
    assert plan_environment(spec).name == spec.name
