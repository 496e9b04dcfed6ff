"""The shell step that writes the comment, run for real: the artifact is the work of a pull request's code."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MARKER = "<!-- encamp preview production -->"
BOT = "github-actions[bot]"
#: As much of `gh api` as the step uses; comments and what is sent lie in files.
GH = """#!/usr/bin/env python3
import json, os, pathlib, sys
words, folder = sys.argv[1:], pathlib.Path(os.environ["FAKE_GH"])
assert words.pop(0) == "api"
if "--jq" in words:
    query = words[words.index("--jq") + 1]
    assert '.user.login == "github-actions[bot]"' in query and "startswith(env.MARKER)" in query
    for one in json.loads((folder / "comments.json").read_text()):
        if one["user"] == "github-actions[bot]" and one["body"].startswith(os.environ["MARKER"]):
            print(one["id"])
else:
    body = pathlib.Path(words[-1].removeprefix("body=@")).read_text()
    (folder / "sent.json").write_text(json.dumps({"words": words, "body": body}))
"""


class Step:
    """The step in a folder of its own, with a `gh` that notes what is sent."""

    def __init__(self, folder: Path) -> None:
        """Make the folder that the artifact is put into."""
        self.folder = folder
        self.comment = folder / "untrusted" / "comment.md"
        self.comment.parent.mkdir()
        gh = folder / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text(GH)
        gh.chmod(gh.stat().st_mode | stat.S_IXUSR)

    def run(self, *comments: dict[str, Any], code: int = 0) -> dict[str, Any]:
        """Run the step beside these comments; gives what was sent, empty where nothing was."""
        (self.folder / "comments.json").write_text(json.dumps(comments))
        workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "preview.yaml").read_text())
        step = next(one for one in workflow["jobs"]["comment"]["steps"] if "run" in one)
        shell = shutil.which("bash")
        assert shell is not None
        marker = step["env"]["MARKER"].replace("${{ vars.ENCAMP_ENVIRONMENT }}", "production")
        # As GitHub's runners start it.
        ended = subprocess.run(
            [shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "FAKE_GH": str(self.folder),
                "GITHUB_REPOSITORY": "acme/ml",
                "NUMBER": "7",
                "MARKER": marker,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        sent = self.folder / "sent.json"
        found: dict[str, Any] = json.loads(sent.read_text()) if sent.exists() else {}
        return found


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


def said(number: int, body: str, user: str = BOT) -> dict[str, Any]:
    return {"id": number, "user": user, "body": body}


def test_a_first_comment_begins_with_the_workflows_own_marker(step: Step) -> None:
    step.comment.write_text("### encamp: 1 stack touched\n")
    sent = step.run()
    assert sent["words"][:2] == ["--silent", "repos/acme/ml/issues/7/comments"]
    assert sent["body"] == f"{MARKER}\n### encamp: 1 stack touched\n"


def test_the_workflows_own_comment_is_written_anew(step: Step) -> None:
    step.comment.write_text("anew")
    sent = step.run(said(1, "other"), said(2, f"{MARKER}\nbefore"), said(3, f"{MARKER}\nlater"))
    assert sent["words"][:4] == ["--silent", "--method", "PATCH", "repos/acme/ml/issues/comments/2"]


@pytest.mark.parametrize("first", ["", "<!-- coverage -->", "Hello"])
def test_no_line_of_a_pull_request_chooses_the_comment(step: Step, first: str) -> None:
    step.comment.write_text(f"{first}\nmine now\n")
    sent = step.run(said(1, "<!-- coverage --> 87 %"), said(2, "Hello"), said(3, MARKER, user="mallory"))
    assert "PATCH" not in sent["words"]


def test_a_long_comment_is_cut_and_broken_characters_are_left_out(step: Step) -> None:
    step.comment.write_bytes(b"\xff" + "ä".encode() * 50_000)
    body = step.run()["body"]
    assert len(body.encode()) <= 60_000 + len(MARKER) + 1
    assert body == f"{MARKER}\n" + "ä" * 29_999


@pytest.mark.parametrize("kind", ["link", "linked folder", "folder", "missing"])
def test_what_is_no_plain_file_is_not_read(step: Step, kind: str) -> None:
    secret = step.folder / "secret"
    secret.mkdir()
    (secret / "comment.md").write_text("of the runner")
    if kind == "link":
        step.comment.symlink_to(secret / "comment.md")
    elif kind == "linked folder":
        step.comment.parent.rmdir()
        step.comment.parent.symlink_to(secret)
    elif kind == "folder":
        step.comment.mkdir()
    assert step.run(code=1) == {}
