"""A view of an environment: what is shown can be imported, what is not cannot, whoever makes it at the same time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.pythons import cache as cached
from encamp_sandbox.pythons.cache import made_once
from encamp_sandbox.pythons.installed import installed
from encamp_sandbox.pythons.view import view_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.pythons.site import Site

pytestmark = pytest.mark.usefixtures("cache")


def imports(view: Path, module: str) -> bool:
    command = [view / "bin" / "python3", "-c", f"import {module}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 or "ModuleNotFoundError" in ended.stderr, ended.stderr
    return ended.returncode == 0


def test_only_what_is_shown_can_be_imported(site: Site) -> None:
    site.install("shown", "shown/__init__.py", "google/shown/__init__.py", "single.py", script="shown:main")
    site.install("hidden", "hidden.py", "google/hidden/__init__.py")
    view = view_of({"shown"}, installed((site.folder,)))
    found = {name: imports(view, name) for name in ("shown", "google.shown", "single", "hidden", "google.hidden")}
    assert found == {"shown": True, "google.shown": True, "single": True, "hidden": False, "google.hidden": False}
    assert not imports(view, "pytest")
    said = subprocess.run([view / "bin" / "shown"], capture_output=True, text=True, check=True)
    assert said.stdout == "shown/__init__.py\n"


def test_packages_are_links_and_the_view_is_made_once(site: Site) -> None:
    site.install("shown", "shown/__init__.py", "shown/deep/module.py", "space/one.py")
    site.install("hidden", "space/two.py")
    have = installed((site.folder,))
    with ThreadPoolExecutor(4) as pool:
        (view,) = {made.result() for made in [pool.submit(view_of, {"shown"}, have) for _ in range(8)]}
    assert view_of({"shown", "hidden"}, have) != view
    packages = view / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert (packages / "shown").readlink() == site.folder / "shown"
    assert not (packages / "space").is_symlink()
    assert [path.name for path in (packages / "space").iterdir()] == ["one.py"]
    assert sorted(path.name for path in view.parent.iterdir() if path.is_dir()) == sorted(
        {view.name, view_of({"shown", "hidden"}, have).name}
    )


def test_a_view_that_is_broken_off_is_not_there(cache: Path) -> None:
    def fail(partial: Path) -> None:
        (partial / "half").touch()
        raise SandboxError("broken off")

    with pytest.raises(SandboxError, match="broken off"):
        made_once(cache / "some" / "view", fail)
    assert not any(path.is_dir() for path in (cache / "some").iterdir())
    assert (made_once(cache / "some" / "view", lambda partial: (partial / "whole").touch()) / "whole").exists()


def test_those_used_longest_ago_go(cache: Path) -> None:
    places = [cache / "some" / str(number) for number in range(4)]
    for number, place in enumerate(places):
        made_once(place, lambda partial: (partial / "file").touch(), keep=3)
        cached.os.utime(place, (number, number))
    made_once(cache / "some" / "4", lambda partial: (partial / "file").touch(), keep=3)
    assert sorted(path.name for path in (cache / "some").iterdir() if path.is_dir()) == ["2", "3", "4"]


def test_a_cache_that_cannot_be_written_to_is_told(cache: Path) -> None:
    cache.mkdir()
    (cache / "some").touch()
    with pytest.raises(SandboxError, match="cannot make a Python environment") as caught:
        made_once(cache / "some" / "view", lambda _: None)
    assert "ENCAMP_CACHE_DIR" in (caught.value.hint or "")
