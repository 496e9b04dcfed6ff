"""``python -m encamp.sandbox.tools``: build the tools that are missing, with a line for whatever takes long."""

from __future__ import annotations

import sys

from encamp.errors import EncampError
from encamp.sandbox.tools import BuildProgress, ensure


def _report(progress: BuildProgress) -> None:
    minutes, seconds = divmod(int(progress.seconds), 60)
    sys.stderr.write(f"{progress.tool:16} {minutes}:{seconds:02}  {progress.text}\n")
    sys.stderr.flush()


def main() -> int:
    """Build; the exit code is the error's."""
    try:
        ensure(_report)
    except EncampError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
