"""Runs a program of a test on a small disk that can become full, a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[1]
#: In a mount namespace of the test's own, a small disk: in memory, which takes no right, or a file system in a file.
MEMORY = "mount -t tmpfs -o size=8m disk"
FILE = "truncate -s 16M $1.image && mkfs.ext4 -q -m 0 $1.image && mount -o loop $1.image"


def run_on_small_disk(folder: Path, how: str, module: str, *, apart: bool = True, user: tuple[str, ...] = ()) -> Any:
    """Run ``python -m module FOLDER_ON_THE_DISK OTHER_FOLDER`` in a mount namespace, and return the JSON it prints.

    Args:
        folder: an empty folder.
        how: mounts the disk, ``MEMORY`` or ``FILE``.
        module: the program.
        apart: whether the other folder lies on the machine's own disk, or on the small one too.
        user: options of ``unshare`` for a caller without root.
    """
    disk, other = folder / "disk", folder / "apart"
    disk.mkdir()
    other.mkdir()
    script = f'set -e; {how} "$1"; mkdir "$1/s"; exec "$3" -m {module} "$1/s" "$2"'
    ended = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-c", script, "sh", disk, other if apart else disk / "s", sys.executable],
        cwd=_REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'infra'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
