"""``python -m encamp_sandbox.tools [NAME...]``: build what is missing; a line for what takes long."""

from __future__ import annotations

import sys

from encamp.errors import EncampError
from encamp_sandbox.tools import TOOLS, BuildLines, ensure_one


def main() -> int:
    """Build; the exit code is the error's."""
    lines = BuildLines(sys.stderr)
    try:
        for name in sys.argv[1:] or TOOLS:
            ensure_one(TOOLS[name], lines.show)
    except EncampError as error:
        lines.close_line()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
