"""Runs programs on request, a line of JSON each.

``{"declare": STACK}``, ``{"note": STACK}`` or ``{"twice": [PROJECT=STACK,STACK...]}``.

One process for all tests of the room, because the engine's SDK takes seconds to import and its runtime is global to a
process. Answers by a line of JSON: what is asked for, or ``{"error": TRACEBACK}``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

declared: Any = importlib.import_module("declare_stack")
twice: Any = importlib.import_module("up_twice")


def answer(asked: dict[str, Any]) -> Any:
    if "declare" in asked:
        return declared.registered(asked["declare"])
    if "note" in asked:
        return declared.noted(asked["note"])
    return twice.all_twice(asked["twice"])


def shown(asset: Any) -> str:
    """An asset's text, or the name of its file."""
    return Path(asset.path).name if hasattr(asset, "path") else str(asset.text)


def main() -> None:
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        # What programs say to people is no answer.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin:
            try:
                found = {"found": answer(json.loads(line))}
            except Exception:  # noqa: BLE001 - the test that asked shows it
                found = {"error": traceback.format_exc()}
            answers.write(json.dumps(found, default=shown) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
