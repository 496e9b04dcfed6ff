"""Which Python replicas run with, and what is told of it without starting it."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from encamp.errors import UsageError
from encamp.run.local.interpreter import interpreter


def python(folder: Path, version: str = "3.10") -> Path:
    """A Python by its files: a program and a library."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
    (folder / "lib" / f"python{version}" / "os.py").touch()
    program = folder / "bin" / f"python{version}"
    program.touch(mode=0o755)
    for name in ("python3", "python"):
        (folder / "bin" / name).symlink_to(program.name)
    return folder / "bin" / "python"


def virtual(folder: Path, base: Path, *, shared: bool = False) -> Path:
    """A virtual environment of a Python."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "python3.10" / "site-packages").mkdir(parents=True)
    settings = f"home = {base.parent}\ninclude-system-site-packages = {str(shared).lower()}\n"
    (folder / "pyvenv.cfg").write_text(settings)
    (folder / "bin" / "python").symlink_to(base)
    return folder / "bin" / "python"


def test_it_is_the_one_of_path(tmp_path: Path) -> None:
    program = python(tmp_path / "py")
    found = interpreter(None, {"PATH": str(program.parent)}, tmp_path)
    assert found.program == program
    assert found.search is not None
    assert tmp_path / "py/lib/python3.10/site-packages" in found.search


def test_a_given_one_may_be_a_path_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = python(tmp_path / "py")
    monkeypatch.chdir(tmp_path)
    assert interpreter("py/bin/python3", {"PATH": "/nowhere"}, tmp_path).program == tmp_path / "py/bin/python3"
    assert interpreter("python3.10", {"PATH": str(program.parent)}, tmp_path).program == program.parent / "python3.10"
    with pytest.raises(UsageError, match="no program 'py/bin/pypy'"):
        interpreter("py/bin/pypy", {}, tmp_path)


def test_without_any_python_it_is_our_own(tmp_path: Path) -> None:
    found = interpreter(None, {"PATH": str(tmp_path)}, tmp_path)
    assert found.program == Path(sys.executable)


def test_a_virtual_environment_is_not_followed_to_its_base(tmp_path: Path) -> None:
    base = python(tmp_path / "py")
    own, outer = tmp_path / "venv/lib/python3.10/site-packages", tmp_path / "py/lib/python3.10/site-packages"
    found = interpreter(str(virtual(tmp_path / "venv", base)), {}, tmp_path)
    assert found.program == tmp_path / "venv/bin/python"
    assert found.search is not None
    assert own in found.search
    assert outer not in found.search
    shared = interpreter(str(virtual(tmp_path / "shared", base, shared=True)), {}, tmp_path)
    assert shared.search is not None
    assert outer in shared.search


def test_what_is_said_of_this_python_is_so() -> None:
    found = interpreter(sys.executable, {}, Path.cwd())
    assert found.search is not None
    assert {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("stdlib"))} <= set(found.search)
    assert found.primary_name == "chief"


def test_pythonpath_goes_first(tmp_path: Path) -> None:
    program = python(tmp_path / "py")
    (tmp_path / "mine").mkdir()
    found = interpreter(str(program), {"PYTHONPATH": "mine:gone:"}, tmp_path)
    assert found.search is not None
    assert found.search[0] == tmp_path / "mine"
    assert tmp_path / "gone" not in found.search


def test_a_shim_of_pyenv_is_looked_through(tmp_path: Path) -> None:
    root = tmp_path / "pyenv"
    for version in ("3.9.1", "3.10.2"):
        python(root / "versions" / version)
    (root / "shims").mkdir()
    shim = root / "shims" / "python"
    shim.touch(mode=0o755)
    (root / "version").write_text("3.9.1\n")
    working = tmp_path / "project" / "deep"
    working.mkdir(parents=True)
    environ = {"PATH": str(shim.parent), "PYENV_ROOT": str(root)}
    assert interpreter(None, environ, working).program == root / "versions/3.9.1/bin/python"
    (tmp_path / "project" / ".python-version").write_text("3.10.2\n")
    assert interpreter(None, environ, working).program == root / "versions/3.10.2/bin/python"
    chosen = interpreter(None, {**environ, "PYENV_VERSION": "3.9.1"}, working)
    assert chosen.program == root / "versions/3.9.1/bin/python"
    unknown = interpreter(None, {**environ, "PYENV_VERSION": "2.7"}, working)
    assert unknown.program == shim
    assert unknown.search is None
    assert unknown.primary_name == "chief"


@pytest.mark.parametrize(
    ("installed", "name"),
    [
        ("tensorflow-1.15.5.dist-info", "master"),
        ("tensorflow_gpu-1.14.0.dist-info", "master"),
        ("tensorflow-2.11.0.dist-info", "chief"),
        ("tensorflow_cpu-2.21.0.dist-info", "chief"),
        ("tensorflow_estimator-1.15.1.dist-info", "chief"),
        ("numpy-1.26.4.dist-info", "chief"),
    ],
)
def test_the_primary_is_master_with_tensorflow_1_only(tmp_path: Path, installed: str, name: str) -> None:
    program = python(tmp_path / "py")
    (tmp_path / "py/lib/python3.10/site-packages" / installed).mkdir()
    assert interpreter(str(program), {}, tmp_path).primary_name == name
