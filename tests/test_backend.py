"""Where states are, and what is mended of those that a killed engine left."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from encamp.backend import backend_url, mend

if TYPE_CHECKING:
    from pathlib import Path


def test_the_environment_wins_over_the_project_and_the_project_over_the_login(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text(json.dumps({"current": "https://api.example"}))
    logged_in = {"PULUMI_HOME": str(tmp_path)}
    assert backend_url(tmp_path, logged_in) == "https://api.example"
    (tmp_path / "Pulumi.yaml").write_text("name: x\nbackend: {url: gs://states}\n")
    assert backend_url(tmp_path, logged_in) == "gs://states"
    assert backend_url(tmp_path, {**logged_in, "PULUMI_BACKEND_URL": "file:///states"}) == "file:///states"
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    assert backend_url(tmp_path, {"PULUMI_HOME": str(tmp_path / "nowhere")}) is None


@pytest.mark.parametrize("query", ["", "?no_tmp_dir=true"])
def test_only_attributes_that_stay_empty_go(query: str, tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi" / "stacks" / "encamp"
    stacks.mkdir(parents=True)
    files = {name: stacks / name for name in ("torn.json.attrs", "new.json.attrs", "whole.json.attrs", "empty.json")}
    for name, file in files.items():
        file.write_text("{}" if name.startswith("whole") else "")
        if not name.startswith("new"):
            os.utime(file, (time.time() - 5, time.time() - 5))
    assert mend(f"file://{tmp_path}{query}") == [files["torn.json.attrs"]]
    assert sorted(file.name for file in stacks.iterdir()) == ["empty.json", "new.json.attrs", "whole.json.attrs"]


@pytest.mark.parametrize("url", [None, "gs://states", "https://api.example", "file:///nowhere/at/all"])
def test_other_backends_have_nothing_to_mend(url: str | None) -> None:
    assert mend(url) == []
