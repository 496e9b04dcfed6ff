from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox import doctor
from encamp_sandbox.doctor import examine
from encamp_sandbox.kubelet.isolation import Verdict
from encamp_sandbox.layout import Layout
from encamp_sandbox.tools import catalog

if TYPE_CHECKING:
    from pathlib import Path


def test_everything_is_looked_at_and_what_is_bad_comes_with_advice(tmp_path: Path) -> None:
    findings = examine(Layout(tmp_path / "none"))
    subjects = {finding.subject for finding in findings}
    assert subjects >= {"Python", "Go", "tools", "namespaces", "memory", "open files", "ports", "kubectl"}
    assert subjects >= {"disk of the sandbox", "pulumi-language-python", "pulumi-resource-kubernetes"}
    assert all(finding.text for finding in findings)
    assert all(finding.advice for finding in findings if finding.grade == doctor.BAD)
    assert not (tmp_path / "none").exists()


def test_without_go_and_without_tools_the_sandbox_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", "")
    found = {finding.subject: finding for finding in examine(Layout(tmp_path))}
    assert found["Go"].grade == doctor.BAD
    assert "install Go" in found["Go"].advice
    assert found["tools"].grade == doctor.NOTE


def _nothing(_: list[str]) -> None:
    """No command works."""


def _found(name: str, path: str | None = None) -> str:
    del path
    return f"/bin/{name}"


def test_forbidden_namespaces_are_told_with_the_setting_that_forbids_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}
    monkeypatch.setattr(doctor, "_run", _nothing)
    monkeypatch.setattr(doctor, "isolation", lambda: Verdict("none", "this system forbids user namespaces"))
    monkeypatch.setattr(doctor, "_read", settings.get)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setattr(doctor.shutil, "which", _found)
    found = {finding.subject: finding for finding in examine(Layout(tmp_path))}
    assert found["namespaces"].grade == doctor.NOTE
    assert "apparmor_restrict_unprivileged_userns=0" in found["namespaces"].advice


@pytest.mark.parametrize(
    ("verdict", "grade", "text"),
    [
        (Verdict("namespaces", "they work"), doctor.GOOD, "tried"),
        (Verdict("namespaces", "they work", unenforced="no nf_tables"), doctor.NOTE, "not enforced: no nf_tables"),
        (Verdict("none", "darwin has no namespaces"), doctor.NOTE, "not enforced, none: darwin has no namespaces"),
    ],
)
def test_it_is_said_where_network_policies_are_not_enforced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, grade: Any, text: str
) -> None:
    monkeypatch.setattr(doctor, "isolation", lambda: verdict)
    (found,) = (one for one in examine(Layout(tmp_path)) if one.subject == "network policies")
    assert found.grade == grade
    assert text in found.text
    assert bool(found.advice) is (grade != doctor.GOOD)


def test_too_little_memory_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_container_limit", lambda: 100 * 1024**2)
    found = {finding.subject: finding for finding in examine(Layout(tmp_path))}
    assert found["memory"].grade == doctor.BAD
