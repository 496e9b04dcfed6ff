"""An image's own Python and packages: by uv, from wheels of this machine, with no network."""

from __future__ import annotations

import ensurepip
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError, UsageError
from encamp.packaging.wheel import stored_zip
from encamp.plan.image_contents import ImageContents
from encamp_sandbox.pythons import choice, interpreters, pulled
from encamp_sandbox.pythons.cache import made_once
from encamp_sandbox.pythons.choice import difference, image_python
from encamp_sandbox.pythons.pulled import contents_of, pull

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER = "3.8" if HERE != "3.8" else "3.9"
IMAGE = "tensorflow/tensorflow:2.11.0"


def wheel(folder: Path, name: str, version: str, text: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    module = "tensorflow" if name == "tensorflow_cpu" else name
    # The image's table has all of them.
    needs = "Requires-Dist: absent\n" if name == "gast" else ""
    members = {
        f"{module}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.write_bytes(stored_zip({member: (data.encode(), 0o100644) for member, data in members.items()}))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """What uv may install: nothing else is reached."""
    del cache
    folder = tmp_path / "wheels"
    folder.mkdir()
    for bundled in (Path(ensurepip.__file__).parent / "_bundled").glob("*.whl"):
        (folder / bundled.name).write_bytes(bundled.read_bytes())
    wheel(folder, "wheel", "0.1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    return folder


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ImageContents]:
    """Has the image of 2.11 hold two packages and a Python of a version."""

    def of(python: str) -> ImageContents:
        contents = ImageContents(IMAGE, "2.11", python, {"tensorflow": "2.11.0", "gast": "0.4.0"})

        def always(_: str) -> ImageContents:
            return contents

        monkeypatch.setattr(pulled, "contents_of", always)
        monkeypatch.setattr(choice, "image_contents", always)
        return contents

    return of


def test_the_versions_of_the_image_are_installed_and_chosen(
    wheels: Path, image: Callable[[str], ImageContents]
) -> None:
    image(HERE)
    wheel(wheels, "tensorflow_cpu", "2.11.0", "__version__ = '2.11.0'")
    wheel(wheels, "tensorflow_cpu", "2.12.0", "raise SystemExit('too new')")
    wheel(wheels, "gast", "0.4.0")
    before = image_python(IMAGE)
    assert before is not None
    assert "encamp sandbox images pull 2.11" in difference(IMAGE)
    steps: list[str] = []
    made = pull("2.11", None, steps.append)
    assert made == pull("2.11", None, lambda _: pytest.fail("it is made once"))
    assert any("2 packages" in step for step in steps)
    chosen = image_python(IMAGE)
    assert chosen is not None
    assert (chosen.programs, difference(IMAGE)) == (made.folder / "bin", "")
    assert chosen != before
    assert str(made.folder) in [mount["source"] for mount in chosen.mounts]
    code = "import tensorflow, gast, pip; print(tensorflow.__version__)"
    said = subprocess.run([made.folder / "bin" / "python3", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "2.11.0\n"


def test_a_framework_that_does_not_run_leaves_nothing(wheels: Path, image: Callable[[str], ImageContents]) -> None:
    contents = image(HERE)
    wheel(wheels, "tensorflow_cpu", "2.11.0", "raise SystemExit('Illegal instruction')")
    wheel(wheels, "gast", "0.4.0")
    with pytest.raises(SandboxError, match=r"2\.11\.0 does not run on this machine: Illegal instruction"):
        pull("2.11", None, lambda _: None)
    assert pulled.pulled(contents) is None


def test_a_package_that_is_nowhere_is_named(wheels: Path, image: Callable[[str], ImageContents]) -> None:
    image(HERE)
    wheel(wheels, "gast", "0.4.0")
    with pytest.raises(SandboxError, match=r"uv pip failed: .*tensorflow-cpu"):
        pull("2.11", None, lambda _: None)


def test_a_python_that_cannot_be_had_is_told(
    wheels: Path, image: Callable[[str], ImageContents], monkeypatch: pytest.MonkeyPatch
) -> None:
    del wheels
    image(OTHER)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", "/nowhere")
    with pytest.raises(SandboxError, match=f"Python {OTHER} is not on this machine and cannot be downloaded") as caught:
        pull("2.11", None, lambda _: None)
    assert "--python" in (caught.value.hint or "")
    with pytest.raises(UsageError, match=f"the image has {OTHER}"):
        pull("2.11", sys.executable, lambda _: None)


def test_for_the_oldest_images_no_python_helps(cache: Path) -> None:
    with pytest.raises(SandboxError, match=r"Python 3\.5 is older than any") as caught:
        pull("1.4", sys.executable, lambda _: None)
    assert "encamp sandbox images" in (caught.value.hint or "")
    assert not any((cache / "pythons" / "images").glob("1*"))


def test_pythons_that_no_tool_brings_are_known_beforehand(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    del cache
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", "/nowhere")
    assert "older than any" in interpreters.obstacle("3.5")
    assert "is not on this machine" in interpreters.obstacle("3.6")
    assert interpreters.obstacle("3.8") == ""


def test_pyenvs_pythons_are_found_and_its_shims_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    del cache
    program = tmp_path / "versions" / "3.6.15" / "bin" / "python3.6"
    for path in (program, tmp_path / "shims" / "python3.7"):
        path.parent.mkdir(parents=True)
        path.touch(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert interpreters.at_hand("3.6") == str(program)
    assert interpreters.at_hand("3.7") is None


def test_a_version_without_a_stock_image_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no stock image is known of runtime version '2\.99'"):
        contents_of("2.99")


def test_an_environment_whose_python_was_removed_is_made_anew(cache: Path) -> None:
    contents = contents_of("2.11")
    folder = pulled._folder(contents)
    (folder / "bin").mkdir(parents=True)
    (folder / "encamp.json").write_text('{"version": "3.8.1", "prefix": "/nowhere"}')
    assert cache in folder.parents
    assert pulled.pulled(contents) is None
    made_once(
        folder, lambda partial: (partial / "whole").touch(), is_whole=lambda _: pulled.pulled(contents) is not None
    )
    assert [path.name for path in folder.iterdir()] == ["whole"]
