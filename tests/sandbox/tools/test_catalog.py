from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.tools import TOOLS, catalog, ensure, installed, missing
from encamp_sandbox.tools.catalog import HELM, build_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path))
    return tmp_path


def _fill() -> None:
    for tool in TOOLS.values():
        folder = build_folder(tool)
        folder.mkdir(parents=True)
        for name in (*tool.packages.values(), "manifests.json"):
            (folder / name).write_text("")


def test_every_tool_is_pinned_and_hashed() -> None:
    for tool in (*TOOLS.values(), HELM):
        assert tool.version.startswith("v")
        assert (tool.folder / "go.sum").is_file()
        assert f"{tool.module} {tool.version}" in (tool.folder / "go.sum").read_text()
    assert {path.parent.name for path in TOOLS["etcd"].folder.parent.glob("*/go.mod")} == {*TOOLS, HELM.name}


def test_the_command_line_tool_of_the_engine_knows_its_version() -> None:
    flags = " ".join(TOOLS["pulumi"].build_flags)
    assert f"version.Version={TOOLS['pulumi'].version}" in flags


def test_a_key_is_stable_and_each_tools_own() -> None:
    keys = [tool.key for tool in TOOLS.values()]
    assert keys == [tool.key for tool in TOOLS.values()]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 16 for key in keys)


def test_a_key_changes_with_what_decides_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TOOLS["etcd"].key
    monkeypatch.setattr(catalog, "target", lambda: "linux/riscv64")
    assert TOOLS["etcd"].key != before


def test_with_a_full_cache_nothing_is_started(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill()
    monkeypatch.setenv("PATH", "")
    told: list[object] = []
    binaries = ensure(told.append)
    assert told == []
    assert missing() == []
    assert set(binaries) >= {"etcd", "pulumi", "kubectl", "kube-apiserver", "jobset"}
    assert all(path.is_file() and cache in path.parents for path in binaries.values())


def test_the_sandbox_comes_up_without_what_is_built_on_demand(cache: Path) -> None:
    _fill()
    assert cache in installed()["gcsfuse"].parents
    installed()["gcsfuse"].unlink()
    assert missing() == []
    assert "gcsfuse" not in installed()


def test_what_is_missing_is_named(cache: Path) -> None:
    _fill()
    (build_folder(TOOLS["autoscaler"]) / "manifests.json").unlink()
    assert [tool.name for tool in missing()] == ["autoscaler"]
    with pytest.raises(SandboxError, match="autoscaler"):
        installed()
    assert cache.is_dir()
