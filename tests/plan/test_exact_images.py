"""Every image that encamp names says exactly what it is: a whole version, or a digest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from encamp.cli.containerfile import command
from encamp.spec.data_files import data_file

TEMPLATES = Path(__file__).parents[2] / "templates"
EXACT = re.compile(r"[\w./-]+(:v?\d+\.\d+\.\d+[\w.-]*|@sha256:[0-9a-f]{64})", re.ASCII)
RUNTIMES = data_file("runtimes")


def _versions() -> list[tuple[str, ...]]:
    builds = [(version,) for version in RUNTIMES["versions"]] + [(version, "--gpu") for version in RUNTIMES["versions"]]
    return [*builds, *((version, "--tpu") for version in RUNTIMES["tpu"]["versions"]), ("--encamp",)]


@pytest.mark.parametrize("arguments", _versions(), ids=" ".join)
def test_every_base_of_a_containerfile_is_exact(arguments: tuple[str, ...]) -> None:
    text = CliRunner().invoke(command, list(arguments), catch_exceptions=False).output
    named = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = [named[base] for base in re.findall(r"^FROM \$\{(\w+)\}", text, re.MULTILINE)]
    assert len(bases) == text.count("\nFROM ") > 0
    assert [base for base in bases if not EXACT.fullmatch(base)] == []


@pytest.mark.parametrize("chart", ["jobset", "kueue"])
def test_every_image_of_a_chart_is_exact(chart: str) -> None:
    images = re.findall(r'"image":\s*"([^"]+)"', (TEMPLATES / "charts" / f"{chart}.json").read_text())
    assert images
    assert [image for image in images if not EXACT.fullmatch(image)] == []
