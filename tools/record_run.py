"""Record a command in a terminal and draw the recording as the picture of README.

    encamp sandbox up && encamp environment up
    python tools/record_run.py record -- encamp run examples/digits/job.yaml
    python tools/record_run.py draw

``record`` runs the command in a pseudo-terminal and writes docs/run.cast in asciinema's format, version 2. ``draw``
renders that file as docs/run.svg. A test holds that the picture is what the recording says.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
CAST, PICTURE = DOCS / "run.cast", DOCS / "run.svg"
COLUMNS, ROWS = 130, 60
#: Lines of replicas that the picture leaves out; "..." stands where they were.
_LEFT_OUT = re.compile(r"-replica-\d+ \| (encamp: |I0000 |WARNING: All log messages|epoch +(5|10|15) )")
_READ_BYTES = 65536
#: A frame of its own around the text, so that it can be read on a light and on a dark page.
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>A recorded run of encamp</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> int:
    """Record a command, or draw what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("record").add_argument("command", nargs="+")
    verbs.add_parser("draw")
    given = parser.parse_args()
    if given.verb == "draw":
        PICTURE.write_text(picture(CAST.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    code, cast = record(given.command)
    CAST.write_text(cast, encoding="utf-8")
    return code


def record(command: list[str]) -> tuple[int, str]:
    """Run a command in a pseudo-terminal; its exit code, and the recording as text of a .cast file."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "$ " + " ".join(command)}
    events: list[str] = [json.dumps(header)]
    begun = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command, without a shell
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    while data := _read(terminal):
        os.write(sys.stdout.fileno(), data)
        events.append(json.dumps([round(time.monotonic() - begun, 3), "o", data.decode(errors="replace")]))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), "\n".join(events) + "\n"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, _READ_BYTES)
    except OSError:  # Linux: the last process of the terminal has ended
        return b""


def picture(cast: str) -> str:
    """The recording as an SVG: its command, and what stood in the terminal at its end."""
    from rich.console import Console  # noqa: PLC0415 - recording needs nothing but Python
    from rich.terminal_theme import DIMMED_MONOKAI  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    header, *events = (json.loads(line) for line in cast.splitlines())
    screen = "".join(text for _, kind, text in events if kind == "o")
    console = Console(record=True, width=header["width"], file=io.StringIO(), force_terminal=True)
    console.print(Text(header["title"], style="bold"))
    for line in _shortened(screen.replace("\r\n", "\n").splitlines()):
        console.print(Text.from_ansi(line), crop=True, no_wrap=True, overflow="ellipsis")
    drawn = console.export_svg(title="encamp", theme=DIMMED_MONOKAI, code_format=_FORMAT, unique_id="run")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def _shortened(lines: list[str]) -> list[str]:
    """The lines without what the picture leaves out."""
    kept: list[str] = []
    for line in lines:
        if not _LEFT_OUT.search(line):
            kept.append(line)
        elif kept[-1] != "...":
            kept.append("...")
    return kept


if __name__ == "__main__":
    sys.exit(main())
