"""The master reports ``x`` at three steps; ``--act TRIAL=CODE:SECONDS`` says how a trial ends, and when."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--act", action="append", default=[])
parser.add_argument("--seconds", type=float, default=3.0)
parser.add_argument("--job-dir")
parser.add_argument("--x", type=float, required=True)
parser.add_argument("--kind", required=True)
arguments = parser.parse_args()
trial = os.environ["CLOUD_ML_TRIAL_ID"]
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(f"{task['type']} of trial {task['trial']} is here with {arguments.kind}", flush=True)
if task["type"] == "worker":
    time.sleep(600)
acts = dict(act.split("=", 1) for act in arguments.act)
code, _, seconds = acts.get(trial, f"0:{arguments.seconds}").partition(":")
metrics = Path(os.environ["CLOUD_ML_HP_METRIC_FILE"])
metrics.parent.mkdir(parents=True, exist_ok=True)
records = []
for step in (1, 2, 3):
    time.sleep(float(seconds) / 3)
    records.append(
        {
            "checkpoint_path": "",
            "global_step": str(step),
            "timestamp": time.time(),
            "trial": trial,
            os.environ["CLOUD_ML_HP_METRIC_TAG"]: str(arguments.x * step),
        }
    )
    metrics.write_text("".join(json.dumps(record, sort_keys=True) + "\n" for record in records))
sys.exit(int(code))
