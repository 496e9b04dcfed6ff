"""Runs examples' ``evaluate.py`` in one process, which imports TensorFlow once: lines of JSON in, lines of JSON out.

A line in is ``[script, argument, ...]``; a line out is what the script printed.
"""

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path

for line in sys.stdin:
    script, *arguments = json.loads(line)
    # Every example has a package of this name.
    for name in [name for name in sys.modules if name.partition(".")[0] == "trainer"]:
        del sys.modules[name]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(script, run_name="__main__")
    sys.stdout.write(json.dumps(printed.getvalue()) + "\n")
    sys.stdout.flush()
