"""Runs one program in a process of its own, by another Python: reads the run as JSON, exits with what became of it.

A script: nothing of encamp is installed where it runs, so what lies beside it is loaded by its file, and its folder is
taken off the path before the program sees that.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path

#: Exit codes: the program failed and its user was told, as the official host has it; and no Pulumi SDK is there.
BAIL, NO_SDK = 32, 33


def main() -> int:
    """Run the program that standard input describes."""
    # The host that started this process ends at a Ctrl-C, and this process with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    beside = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != beside]
    if importlib.util.find_spec("pulumi") is None:
        return NO_SDK
    _beside("parent").end_with_parent()
    program = _beside("program")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    run = program.ProgramRun(**json.load(sys.stdin))
    return 0 if program.run_program(run) else BAIL


def _beside(name: str):  # noqa: ANN202 - a module, of which no checker knows the content
    """Return a module of this folder by its file."""
    file = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_encamp_host_{name}", file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
