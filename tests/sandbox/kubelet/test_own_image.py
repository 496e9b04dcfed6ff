"""What stands for encamp's own image in pods of the sandbox, compared with the Containerfile that makes the image."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from encamp.new_project import project_files, write_project
from encamp.resources import resource
from encamp_sandbox.kubelet.own_image import FOLDER, own_image

IMAGE = "us-central1-docker.pkg.dev/acme-ml/encamp/encamp:1"


@pytest.mark.parametrize(
    ("image", "is_own"),
    [
        (IMAGE, True),
        (f"localhost:5000/lab/encamp@sha256:{'0' * 64}", True),
        ("us-central1-docker.pkg.dev/acme-ml/encamp/runtime:2.11", False),
        ("us-central1-docker.pkg.dev/acme-ml/encamp/encamp-trainer:1", False),
        ("python:3.11", False),
        ("", False),
    ],
)
def test_an_image_is_known_by_its_name(tmp_path: Path, image: str, *, is_own: bool) -> None:
    assert (own_image(image, tmp_path) is not None) == is_own


def test_everything_is_where_the_image_has_it(tmp_path: Path) -> None:
    made = own_image(IMAGE, tmp_path)
    assert made is not None
    text = resource("templates", "encamp.Containerfile.j2").read_text()
    assert f"WORKDIR {made.folder}\n" in text
    copied = {name.removeprefix("./") for name in re.findall(r"^COPY --chown=65532 \S+ (\./\S+)$", text, re.MULTILINE)}
    places = {mount["target"]: Path(mount["source"]) for mount in made.mounts}
    for name in copied - {"./", ""}:
        below = places.get(f"{FOLDER}/{name}", places[FOLDER] / name)
        assert below.exists(), name
    assert copied >= {"infra", "templates", "stacks"}


def test_a_project_of_ones_own_is_in_it_and_encamp_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "camp"
    write_project(project, project_files("camp"))
    monkeypatch.chdir(project)
    made = own_image(IMAGE, tmp_path / "pod")
    assert made is not None
    places = {mount["target"]: Path(mount["source"]) for mount in made.mounts}
    assert places[f"{FOLDER}/infra"] == project / "infra"
    assert places[made.env["PYTHONPATH"]] == repository_infra()
    assert (tmp_path / "pod" / "stacks" / "Pulumi.production.yaml").is_file()
    assert (tmp_path / "pod" / "Pulumi.yaml").read_text() == (project / "Pulumi.yaml").read_text()


def repository_infra() -> Path:
    return Path(__file__).resolve().parents[3] / "infra"


def test_the_engine_writes_to_a_copy(tmp_path: Path) -> None:
    made = own_image(IMAGE, tmp_path)
    assert made is not None
    assert [mount["source"] for mount in made.mounts if not mount["read_only"]] == [str(tmp_path)]
    assert own_image(IMAGE, tmp_path) == made
