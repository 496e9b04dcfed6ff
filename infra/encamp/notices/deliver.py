"""The process that sends one message: ``python -m encamp.notices.deliver``, the message as JSON on standard input.

It answers with JSON, ``sent`` and ``why``. What Apprise logs is read for a status code alone, and goes nowhere.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import threading
import time
from typing import Any

_TRIES = 2
_PAUSE_SECONDS = 2.0
_STATUS = re.compile(r"error[=: (]+(\d{3})\b")
_UNREACHED = re.compile(r"connection error|socket|timed? ?out", re.IGNORECASE)


class _Heard(logging.Handler):
    """Keeps what the library logs, in memory."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        with contextlib.suppress(Exception):
            self.lines.append(record.getMessage())


def main() -> None:
    """Send the message that stands on standard input."""
    asked: dict[str, Any] = json.load(sys.stdin)
    seconds = float(asked["seconds"])
    _end_after(seconds)
    with contextlib.redirect_stdout(io.StringIO()):
        why = deliver(asked, until=time.monotonic() + seconds)
    sys.stdout.write(json.dumps({"sent": not why, "why": why}))


def deliver(asked: dict[str, Any], *, until: float) -> str:
    """Send it, twice if the first try fails quickly; why it was not sent, empty if it was."""
    heard = _Heard()
    logger = logging.getLogger("apprise")
    logger.handlers[:] = [heard]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    import apprise  # noqa: PLC0415 - an optional library, which takes a while

    # Nothing is kept on disk, and no service sends a message on to another address.
    asset = apprise.AppriseAsset(app_id="encamp", storage_mode="memory", http_redirects=False, secure_logging=True)
    service = apprise.Apprise.instantiate(asked["address"], asset=asset)
    if service is None:
        return "its address is no URL that Apprise takes"
    for tries_left in reversed(range(_TRIES)):
        heard.lines.clear()
        if _notified(service, asked, apprise):
            return ""
        if not tries_left or time.monotonic() + 2 * _PAUSE_SECONDS > until:
            break
        time.sleep(_PAUSE_SECONDS)
    return reason(heard.lines)


def reason(lines: list[str]) -> str:
    """Put what the library logged into fixed words: a line of it may hold the address."""
    for line in reversed(lines):
        if found := _STATUS.search(line):
            return f"the service answered {found[1]}"
    if any(map(_UNREACHED.search, lines)):
        return "the service could not be reached"
    return "the service did not take it"


def _notified(service: Any, asked: dict[str, Any], apprise: Any) -> bool:
    # Plugins raise whatever their libraries do, with the address in it.
    with contextlib.suppress(Exception):
        group = apprise.Apprise()
        group.add(service)
        return bool(
            group.notify(
                title=asked["title"],
                body=asked["body"],
                notify_type=apprise.NotifyType(asked["kind"]),
                body_format=apprise.NotifyFormat.TEXT,
            )
        )
    return False


def _end_after(seconds: float) -> None:
    """End this process in time, also when whoever started it is gone."""
    timer = threading.Timer(seconds + 1, os._exit, (1,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
