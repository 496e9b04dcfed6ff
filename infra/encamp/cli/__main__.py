"""``python -m encamp.cli``: the command without a script on PATH."""

from __future__ import annotations

from encamp.cli.main import main

if __name__ == "__main__":
    main()
