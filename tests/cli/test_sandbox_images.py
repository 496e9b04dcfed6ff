"""What is said of the Pythons of images: by runtime version, by the doctor, and of a job that is planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from encamp.cli.main import cli
from encamp.errors import UsageError
from encamp.spec.data_files import data_file
from encamp_sandbox.doctor import examine
from encamp_sandbox.layout import Layout

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "job.yaml"
LINE = "the image of 2.11 has Python 3.8, TensorFlow 2.11.0; the sandbox "


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No image was pulled."""
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))


def said(*words: str) -> str:
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_runtime_version_has_a_line() -> None:
    text = said("sandbox", "images")
    known = list(data_file("runtimes")["versions"])
    assert [line.split()[0] for line in text.splitlines()[: len(known)]] == known
    assert "encamp sandbox images pull 2.11" in text
    assert [one["version"] for one in json.loads(said("sandbox", "images", "--format", "json"))] == known


def test_a_version_that_has_no_image_is_refused_before_anything_is_downloaded() -> None:
    with pytest.raises(UsageError, match=r"'2\.99'"):
        CliRunner().invoke(cli, ["sandbox", "images", "pull", "2.11", "2.99"], catch_exceptions=False)


def test_a_plan_for_the_sandbox_says_what_differs() -> None:
    assert said("plan", str(DIGITS), "--environment", "sandbox").count(LINE) == 1
    assert LINE not in said("plan", str(DIGITS), "--environment", "production")


def test_the_doctor_lists_what_can_be_given_exactly(tmp_path: Path) -> None:
    (found,) = [one for one in examine(Layout(tmp_path / "none")) if one.subject == "Python of runtime versions"]
    assert "2.11" in found.text.split("exactly once they are brought: ")[1].split(";")[0].split(", ")
    assert "1.4" in found.text.split("only nearly: ")[1].split(", ")
    assert "encamp sandbox images" in found.advice
