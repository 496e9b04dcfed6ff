"""Which stacks are made in a new sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.stacks import committed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stack_belongs_to_the_project_that_its_config_names(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    for name, content in {
        "mine": b"config:\n  gcp:project: sandbox-x\n",
        "foreign": b"config:\n  gcp:project: other\n",
        "broken": b"config: [a\n",
        "binary": b"\xff\xfe",
        "empty": b"",
        "list": b"- config\n",
    }.items():
        (tmp_path / "stacks" / f"Pulumi.{name}.yaml").write_bytes(content)
    assert list(committed("sandbox-x", tmp_path)) == ["mine"]
