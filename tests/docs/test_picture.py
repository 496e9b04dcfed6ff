"""README's picture is the recording that lies beside it."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "tools" / "record_run.py"
CAST = (REPOSITORY / "docs" / "run.cast").read_text(encoding="utf-8")
PICTURE = (REPOSITORY / "docs" / "run.svg").read_text(encoding="utf-8")


def test_the_picture_is_what_the_recording_says() -> None:
    spec = importlib.util.spec_from_file_location("record_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.picture(CAST) == PICTURE


def test_the_recording_is_of_a_run_that_succeeded_and_left_nothing() -> None:
    header, *events = (json.loads(line) for line in CAST.splitlines())
    assert (header["version"], header["title"]) == (2, "$ encamp run examples/digits/job.yaml")
    text = "".join(text for _, _, text in events)
    assert "the job is SUCCEEDED" in text
    assert "left         nothing" in text


def test_the_picture_loads_nothing_and_is_small() -> None:
    root = ET.fromstring(PICTURE)  # noqa: S314 - a file of this repository
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "url(http" not in PICTURE
    assert "@font-face" not in PICTURE
    assert len(PICTURE) < 30_000
    assert "docs/run.svg" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
