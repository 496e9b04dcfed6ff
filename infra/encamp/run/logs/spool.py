"""Each replica's log on the local disk while the job runs, so that no pod takes its log with it.

A log's state lies beside it (``master-replica-0.json``): which pod it is of, how far it goes and whether it is whole.
A reaper that comes after a dead driver goes on from there, and takes nothing away before more has come.

No file is held open and no text is held but an unfinished line, so that a thousand logs cost little. A disk that is
full is an ``OSError`` of what wanted to write; what was there before stays, and the log goes on when there is room.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from encamp.run.logs.log_lines import plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.run.logs.replicas import Replica

#: Number of a log's last lines that are kept for people.
LAST_LINES = 10
#: A line of which more is held is written out in pieces.
_LONGEST_HELD = 64 * 1024
_LONGEST_SHOWN = 4096
_SAVE_SECONDS = 5.0
#: Characters of an RFC 3339 time in UTC down to the whole second; such texts sort as the times do.
_SECOND = 19
_STAMPS = re.compile(rb"^[^ \n]{0,19}", re.MULTILINE)


class ReplicaLog:
    """One replica's log, in the order in which it was written, nothing twice and nothing left out.

    The server marks every line with its time. After a broken connection it is asked for the lines since the latest
    whole second that was seen, and as many as were taken of that second are left out; so lines may share a time, or
    come slightly out of order as those of stdout and stderr do.

    Args:
        show: gets the replica's name and whole lines as they were written; must neither raise nor wait.
        grown: gets the replica's name and how many bytes of its log are whole lines; the same.
    """

    def __init__(
        self,
        folder: Path,
        replica: str,
        show: Callable[[str, bytes], None],
        grown: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self.replica = replica
        self.path = folder / f"{replica}.log"
        self._folder = folder
        self._state_path = folder / f"{replica}.json"
        self._show = show
        self._grown = grown
        self._lock = threading.Lock()
        self._held = b""
        self._closed = False
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)
        self._since = ""
        self._to_skip = 0
        self._repeating = False
        self._mid_line: str | None = None
        self._ended = ""
        self._saved = time.monotonic()
        self.state: dict[str, Any] = {
            "pod": "",
            "uid": "",
            "attempts": 0,
            "offset": 0,
            "second": "",
            "taken": 0,
            "complete": False,
            "reason": "no log was seen",
            "exitCode": None,
            "termination": {},
        }
        self.state.update(read_state(folder, replica))
        #: Up to which offset which second of Kubernetes' times had come, where ``note_seconds`` asks for it.
        self.seconds: list[tuple[int, str]] = []
        self.note_seconds = False
        #: Offset of the next byte; what lies behind it is of no use once that has come.
        self._end = int(self.state["offset"])

    def begin(self, replica: Replica) -> bool:
        """Start the log of a pod: after the log of an earlier one, or where reading the same one stopped.

        False if the same pod's log was read to its end before.

        Raises:
            OSError: the disk is full; nothing has begun.
        """
        with self._lock:
            if self._closed:
                return False
            if self.state["uid"] == replica.uid:
                return not self.state["complete"]
            # A text of which no state tells is of nobody knows which pod.
            self._end = self._size() if self.state["attempts"] else 0
            if self.state["attempts"]:
                broken = b"" if self._ends_a_line() else b"\n"
                self._write(broken + again(self.replica, replica.pod) + b"\n")
            self.state["attempts"] += 1
            self.state.update(
                pod=replica.pod,
                uid=replica.uid,
                offset=self._end,
                second="",
                taken=0,
                complete=False,
                reason="the log was being read",
            )
            if self._ended != replica.uid:
                self.state.update(exitCode=None, termination={})
            self._save()
            return True

    def reconnect(self) -> str | None:
        """Forget an unfinished line, and return the time from which lines are to come again."""
        with self._lock:
            self._held = b""
            self._mid_line = None
            self._end = self.state["offset"]
            self._since, self._to_skip = self.state["second"], self.state["taken"]
            self._repeating = bool(self._since)
            return f"{self._since}Z" if self._since else None

    def feed(self, data: bytes) -> None:
        """Take what came from the server.

        Raises:
            OSError: it cannot be written; ``reconnect`` and read again.
        """
        with self._lock:
            if self._closed:
                return
            data = self._held + data
            whole = data.rfind(b"\n") + 1
            lines, self._held = data[:whole], data[whole:]
            if lines:
                self._take(lines)
            if len(self._held) > _LONGEST_HELD:
                self._spill()
            if time.monotonic() - self._saved > _SAVE_SECONDS:
                self._save()

    def end(self, replica: Replica | None, *, complete: bool, reason: str = "") -> None:
        """Note that the pod's log is over.

        ``complete`` says that it was read to its end, else ``reason`` why it may not be whole; ``replica`` is the pod
        as it was seen last.
        """
        with self._lock:
            if self._closed:
                return
            if complete:
                try:
                    if self._held or self._mid_line is not None:
                        self._take(self._held + b"\n")
                    self._cut()
                except OSError as error:
                    complete, reason = False, unwritten(error)
            self._held = b""
            self.state.update(complete=complete, reason="" if complete else reason)
            if replica is not None and replica.exit_code is not None:
                self.state.update(exitCode=replica.exit_code, termination=replica.termination)
            self._save()

    def ended(self, replica: Replica) -> None:
        """Note how the pod ended."""
        with self._lock:
            self._ended = replica.uid
            self.state.update(exitCode=replica.exit_code, termination=replica.termination)
            self._save()

    def take(self, draft: Path, pods: int, pod: str, reason: str) -> bool:
        """Take the whole log from a file beside it; False if the spool has more than that.

        ``pods`` is how many it comes from, ``pod`` the last one; ``reason`` why it is not whole, empty if it is.
        """
        with self._lock:
            if draft.stat().st_size < self._size():
                return False
            draft.replace(self.path)
            self._end = self._size()
            self.state.update(complete=not reason, reason=reason, attempts=pods, pod=pod, offset=self._end)
            self._grown(self.replica, self._end)
            self._save()
        return True

    def last_lines(self) -> tuple[str, ...]:
        """Return the end of the log, ten lines at most."""
        with self._lock:
            return tuple(plain(line).decode("utf-8", "backslashreplace") for line in self._last)

    def close(self) -> None:
        """Note how far it goes; what comes later is left out."""
        with self._lock:
            if not self._closed and self.state["uid"]:
                self._save()
            self._closed = True

    def _take(self, lines: bytes) -> None:
        """Take whole lines as they came."""
        if self._mid_line is not None:
            first, _, lines = lines.partition(b"\n")
            self._write(first + b"\n")
            self._passed(self._mid_line, 1)
            self._mid_line = None
        while self._repeating and lines:
            line, _, rest = lines.partition(b"\n")
            if not self._is_repeated(_second(line)):
                break
            lines = rest
        if not lines:
            return
        text = b"\n".join([line.partition(b" ")[2] for line in lines.split(b"\n")])
        if self.note_seconds:
            self._note_seconds(lines)
        self._write(text)
        self._passed(*_latest(lines))
        self._tell(text)

    def _note_seconds(self, lines: bytes) -> None:
        end = self._end
        for line in lines[:-1].split(b"\n"):
            end += len(line.partition(b" ")[2]) + 1
            second = max(_second(line), self.seconds[-1][1] if self.seconds else "")
            if self.seconds and self.seconds[-1][1] == second:
                self.seconds.pop()
            self.seconds.append((end, second))

    def _is_repeated(self, second: str, *, peek: bool = False) -> bool:
        """Whether a line was taken before the connection broke; ``peek`` leaves the count alone."""
        if second < self._since:
            return True
        if self._to_skip:
            self._to_skip -= not peek
            return True
        self._repeating = False
        return False

    def _passed(self, second: str, count: int) -> None:
        """Count lines that were written, given the latest second among them and how many are of it."""
        if second > self.state["second"]:
            self.state.update(second=second, taken=0)
        if second == self.state["second"]:
            self.state["taken"] += count
        self.state["offset"] = self._end
        self._grown(self.replica, self._end)

    def _tell(self, text: bytes) -> None:
        self._last.extend(line[:_LONGEST_SHOWN] for line in text[:-1].rsplit(b"\n", LAST_LINES)[-LAST_LINES:])
        self._show(self.replica, text)

    def _spill(self) -> None:
        """Write out a piece of a very long line, whose beginning was shown."""
        if self._mid_line is None:
            stamp, _, text = self._held.partition(b" ")
            second = _second(stamp)
            if self._repeating and self._is_repeated(second, peek=True):
                # The line's time is all that its end is judged by.
                self._held = stamp + b" "
                return
            self._held = text
            self._mid_line = second
            self._tell(text[:_LONGEST_SHOWN] + b"\n")
        self._write(self._held)
        self._held = b""

    def _write(self, text: bytes) -> None:
        """Write at the end, all or nothing."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size > self._end:
                os.ftruncate(descriptor, self._end)
            rest, at = memoryview(text), self._end
            try:
                while rest:
                    written = os.pwrite(descriptor, rest, at)
                    rest, at = rest[written:], at + written
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self._end)
                raise
        finally:
            os.close(descriptor)
        self._end = at

    def _cut(self) -> None:
        """Take away what an earlier reading left behind the end."""
        if self._size() > self._end:
            os.truncate(self.path, self._end)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _ends_a_line(self) -> bool:
        if self._end == 0:
            return True
        with self.path.open("rb") as stream:
            stream.seek(self._end - 1)
            return stream.read(1) == b"\n"

    def _save(self) -> None:
        self._saved = time.monotonic()
        draft = self._state_path.with_suffix(".json.new")
        # On a full disk the state before stays, and leads to less than there is: nothing that was read is lost by that.
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_text(json.dumps(self.state))
            draft.replace(self._state_path)


def read_state(folder: Path, replica: str) -> dict[str, Any]:
    """Return the state of a log; empty if there is none yet, or it is damaged."""
    try:
        found = json.loads((folder / f"{replica}.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def spooled(folder: Path) -> list[str]:
    """Return the names of the replicas of which a folder has a log; none if there is no such folder."""
    return sorted(path.stem for path in folder.glob("*.log"))


def again(replica: str, pod: str) -> bytes:
    """Return the line between the logs of two pods of a replica."""
    return f"[encamp] {replica} was started again as {pod}".encode()


def unwritten(error: OSError) -> str:
    """Return why a log is not whole when its local copy cannot be written."""
    return f"the local copy could not be written: {error.strerror or type(error).__name__}"


def _second(line: bytes) -> str:
    """Return the whole second of a line's time."""
    return line.partition(b" ")[0][:_SECOND].decode("ascii", "replace")


def _latest(lines: bytes) -> tuple[str, int]:
    """Return the latest second among whole lines, and how many of them are of it."""
    first = lines[:_SECOND]
    if b" " not in first and b"\n" not in first and lines.count(b"\n" + first) + 1 == (count := lines.count(b"\n")):
        # A log that comes fast is mostly of one second.
        return first.decode("ascii", "replace"), count
    # Behind the last line's end the expression finds one more beginning, which is none.
    stamps = _STAMPS.findall(lines[:-1])
    latest = max(stamps)
    return latest.decode("ascii", "replace"), stamps.count(latest)
