"""``--act ROLE-INDEX=exit:CODE:SECONDS`` ends a replica with a code, ``=sleep`` lets it wait to be stopped,
``=import:NAME`` has it import a module.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import time


def stopped(number: int, frame: object) -> None:
    print(f"{me} was asked to stop", flush=True)
    sys.exit(143)


task = json.loads(os.environ["TF_CONFIG"])["task"]
me = f"{task['type']}-{task['index']}"
parser = argparse.ArgumentParser()
parser.add_argument("--act", action="append", default=[])
parser.add_argument("--job-dir")
acts = dict(act.split("=", 1) for act in parser.parse_args().act)
signal.signal(signal.SIGTERM, stopped)
act = acts.get(me, "exit:0:0")
print(f"{me} is here and will {act}", flush=True)
if act == "sleep":
    time.sleep(600)
    sys.exit(9)
if act.startswith("import:"):
    importlib.import_module(act.partition(":")[2])
_, code, seconds = act.split(":")
code = int(code)
time.sleep(float(seconds))
print(f"{me} ends with {code}", file=sys.stderr if code else sys.stdout, flush=True)
sys.exit(code)
