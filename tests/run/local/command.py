"""``encamp local train`` as people run it, and a trainer that does what its arguments tell each replica to do."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import encamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 30
_MARK = "ENCAMP_TEST_RUN"
_TRAINER = Path(__file__).parent / "trainer" / "task.py"


def until(true: Callable[[], Any], what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"waited {SECONDS} s in vain: {what}"
        time.sleep(0.01)


class LocalTrain:
    """One call of the command, in a folder of its own with a trainer package in it."""

    def __init__(
        self, folder: Path, *flags: str, arguments: tuple[str, ...] = (), stdout: int = subprocess.PIPE
    ) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        (folder / "trainer").mkdir(parents=True, exist_ok=True)
        (folder / "trainer" / "__init__.py").touch()
        (folder / "trainer" / "task.py").write_text(_TRAINER.read_text())
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from encamp.cli.main import main; main()", "local", "train"),
                *("--module-name", "trainer.task", "--package-path", "trainer", "--python", sys.executable),
                *flags,
                *("--", *arguments),
            ],
            cwd=folder,
            env={**os.environ, _MARK: self.mark, "PYTHONPATH": str(Path(encamp.__file__).parents[1])},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C of its terminal is for its process group alone
        )

    def has(self, *names: str) -> bool:
        """Whether replicas have left these notes in the folder."""
        return all((self.folder / name).exists() for name in names)

    def wait_for(self, *names: str) -> None:
        """Wait for notes of replicas."""
        until(lambda: self.has(*names) or self.process.poll() is not None, f"{names} in {self.folder}")
        if not self.has(*names):
            output = self.process.communicate()[0].decode()
            raise AssertionError(f"ended with {self.process.returncode} before {names}:\n{output}")

    def end(self) -> tuple[int, str]:
        """Exit code and output."""
        output = self.process.communicate(timeout=SECONDS)[0]
        return self.process.returncode, (output or b"").decode()

    def processes(self) -> list[psutil.Process]:
        """What lives of it, the command itself and its guardian included: everything that has inherited its mark."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def assert_gone(self) -> None:
        """Nothing of it lives any more."""
        self.process.wait(SECONDS)
        until(lambda: not self.processes(), f"{[process.cmdline() for process in self.processes()]} live on")

    def close(self) -> None:
        """Leave nothing behind, whatever a test has found."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def local_train(folder: Path, *flags: str, arguments: tuple[str, ...] = (), **given: Any) -> Iterator[LocalTrain]:
    """A call of the command that leaves nothing behind."""
    command = LocalTrain(folder, *flags, arguments=arguments, **given)
    try:
        yield command
    finally:
        command.close()
