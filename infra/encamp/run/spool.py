"""Each replica's log on the local disk while the job runs, so that no pod takes its log with it.

A log's state lies beside it (``master-replica-0.json``): which pod it is of, how far it goes and whether it is whole.
A reaper that comes after a dead driver goes on from there.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from encamp.run.replicas import Replica

#: How many lines of a log's end are kept for people.
LAST_LINES = 10
#: A line of which more is held is written out in pieces.
_LONGEST_HELD = 1024 * 1024
_LONGEST_SHOWN = 4096


class ReplicaLog:
    """One replica's log, in the order in which it was written, nothing twice and nothing left out.

    The server marks every line with its time. After a broken connection it is asked for the lines since the latest
    whole second that was seen, and as many as were taken of that second are left out; so lines may share a time, or
    come slightly out of order as those of stdout and stderr do.
    """

    def __init__(self, folder: Path, replica: str, show: Callable[[str, str], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.replica = replica
        self.path = folder / f"{replica}.log"
        self._state_path = folder / f"{replica}.json"
        self._show = show
        self._lock = threading.Lock()
        self._held = b""
        self._file: IO[bytes] | None = None
        self._closed = False
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)
        self._taken_of_second = 0
        self._since = ""
        self._to_skip = 0
        self._mid_line = False
        self._spilled_time = ""
        self.state: dict[str, Any] = {
            "pod": "",
            "uid": "",
            "attempts": 0,
            "attemptOffset": 0,
            "second": "",
            "complete": False,
            "reason": "no log was seen",
            "exitCode": None,
            "termination": {},
        }
        if self._state_path.exists():
            self.state.update(json.loads(self._state_path.read_text()))

    def begin(self, replica: Replica) -> None:
        """Start the log of a pod: after the log of an earlier one, over what was read of the same one before."""
        with self._lock:
            if self._closed:
                return
            file = self._opened()
            if self.state["uid"] == replica.uid:
                file.truncate(self.state["attemptOffset"])
                file.seek(0, os.SEEK_END)
            else:
                file.seek(0, os.SEEK_END)
                if self.state["attempts"]:
                    self._write(_again(self.replica, replica.pod))
                self.state["attempts"] += 1
            self.state.update(
                pod=replica.pod,
                uid=replica.uid,
                attemptOffset=file.tell(),
                second="",
                complete=False,
                reason="the log was being read",
            )
            self._taken_of_second, self._since, self._to_skip = 0, "", 0
            self._save()

    def reconnect(self) -> str | None:
        """Forget an unfinished line, and return the time from which lines are to come again."""
        with self._lock:
            self._held = b""
            if self._mid_line:
                self._opened().truncate(self.state["lineOffset"])
                self._opened().seek(0, os.SEEK_END)
                self._mid_line = False
            self._since, self._to_skip = self.state["second"], self._taken_of_second
            return f"{self._since}Z" if self._since else None

    def feed(self, data: bytes) -> None:
        """Take what came from the server."""
        with self._lock:
            if self._closed:
                return
            *lines, self._held = (self._held + data).split(b"\n")
            for line in lines:
                self._take(line)
            if len(self._held) > _LONGEST_HELD:
                self._spill()
            if lines:
                self._opened().flush()

    def end(self, replica: Replica | None, *, complete: bool, reason: str = "") -> None:
        """The pod's log is over.

        ``complete`` says that it was read to its end, else ``reason`` why it may not be whole; ``replica`` is the pod
        as it was seen last.
        """
        with self._lock:
            if self._closed:
                return
            if self._held and complete:
                self._take(self._held)
            self._held = b""
            self.state.update(complete=complete, reason=reason)
            if replica is not None and replica.exit_code is not None:
                self.state.update(exitCode=replica.exit_code, termination=replica.termination)
            self._opened().flush()
            self._save()

    def ended(self, replica: Replica) -> None:
        """Note how the pod ended."""
        with self._lock:
            self.state.update(exitCode=replica.exit_code, termination=replica.termination)
            self._save()

    def replace(self, lines: Iterable[tuple[str, str]]) -> bool:
        """Take the whole log from elsewhere: pods and lines in order. False where the spool has more than that."""
        draft = self.path.with_suffix(".log.new")
        with self._lock, draft.open("wb") as stream:
            pods: list[str] = []
            for pod, text in lines:
                if pods and pod != pods[-1]:
                    stream.write(_again(self.replica, pod) + b"\n")
                if not pods or pod != pods[-1]:
                    pods.append(pod)
                stream.write(text.encode() + b"\n")
            taken = stream.tell()
            held = self.path.stat().st_size if self.path.exists() else 0
            if taken < held:
                draft.unlink()
                return False
            if self._file is not None:
                self._file.close()
                self._file = None
            draft.replace(self.path)
            self.state.update(complete=True, reason="", attempts=len(pods), pod=pods[-1] if pods else "")
            self._save()
        return True

    def last_lines(self) -> tuple[str, ...]:
        """The end of the log, ten lines at most."""
        with self._lock:
            return tuple(line.decode("utf-8", "backslashreplace") for line in self._last)

    def close(self) -> None:
        """Close the file; what comes later is left out."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _take(self, line: bytes) -> None:
        if self._mid_line:
            self._opened().write(line + b"\n")
            self._mid_line = False
            self._passed(self._spilled_time)
            return
        stamp, _, text = line.partition(b" ")
        if not self._is_repeated(_second(stamp)):
            self._passed(_second(stamp))
            self._write(text)

    def _is_repeated(self, second: str, *, peek: bool = False) -> bool:
        """Whether a line was taken before the connection broke; ``peek`` leaves the count alone."""
        if second < self._since:
            return True
        if self._to_skip:
            self._to_skip -= not peek
            return True
        return False

    def _passed(self, second: str) -> None:
        if second > self.state["second"]:
            self.state["second"] = second
            self._taken_of_second = 0
        if second == self.state["second"]:
            self._taken_of_second += 1

    def _write(self, text: bytes) -> None:
        self._opened().write(text + b"\n")
        self._last.append(text[:_LONGEST_SHOWN])
        self._show(self.replica, text[:_LONGEST_SHOWN].decode("utf-8", "backslashreplace"))

    def _spill(self) -> None:
        """Write out a piece of a very long line; what of it was shown is its beginning."""
        if not self._mid_line:
            stamp, _, text = self._held.partition(b" ")
            if self._is_repeated(_second(stamp), peek=True):
                return
            self.state["lineOffset"] = self._opened().tell()
            self._mid_line = True
            self._spilled_time = _second(stamp)
            self._held = text
            self._last.append(text[:_LONGEST_SHOWN])
            self._show(self.replica, text[:_LONGEST_SHOWN].decode("utf-8", "backslashreplace"))
        self._opened().write(self._held)
        self._held = b""

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            self._file = os.fdopen(descriptor, "r+b")
            self._file.seek(0, os.SEEK_END)
        return self._file

    def _save(self) -> None:
        draft = self._state_path.with_suffix(".json.new")
        draft.write_text(json.dumps(self.state))
        draft.replace(self._state_path)


def _again(replica: str, pod: str) -> bytes:
    return f"[encamp] {replica} was started again as {pod}".encode()


def _second(stamp: bytes) -> str:
    """The whole second of an RFC 3339 time in UTC; such texts sort as the times do."""
    return stamp[:19].decode("ascii", "replace")
