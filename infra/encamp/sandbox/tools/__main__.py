"""``python -m encamp.sandbox.tools``: build the tools that are missing, with a line for whatever takes long."""

from __future__ import annotations

import sys

from encamp.errors import EncampError
from encamp.sandbox.tools import BuildLines, ensure


def main() -> int:
    """Build; the exit code is the error's."""
    lines = BuildLines(sys.stderr)
    try:
        ensure(lines.show)
    except EncampError as error:
        lines.close_line()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
