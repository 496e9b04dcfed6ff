"""Say in one line what a replica sees from inside its pod, wait, and end."""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import socket
import time
import urllib.error
import urllib.request
from typing import Any

#: Begins the line that probes read; see ``encamp.acceptance.cases``.
INSIDE = "encamp-acceptance: "
METADATA = "http://metadata.google.internal/computeMetadata/v1/"
ASKED = (
    "instance/service-accounts/default/email",
    "instance/attributes/cluster-name",
    "instance/attributes/cluster-location",
    "instance/zone",
    "project/project-id",
)
OK = 200
SHARED_MEMORY = "/dev/shm"
DRIVER_FOLDERS = ("/usr/local/nvidia/bin", "/usr/bin")


def metadata(path: str, *, flavor: bool = True) -> dict[str, Any]:
    """Ask the metadata server; gives the status and the text or the error."""
    request = urllib.request.Request(METADATA + path, headers={"Metadata-Flavor": "Google"} if flavor else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {"status": answer.status, "text": answer.read().decode(), "server": answer.headers.get("Server")}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "text": error.read().decode(errors="replace")[:200]}
    except OSError as error:
        return {"status": 0, "text": str(error)}


def token() -> dict[str, Any]:
    """Ask for a token; gives all of the answer but the token."""
    answer = metadata("instance/service-accounts/default/token")
    if answer["status"] == OK:
        found = json.loads(answer["text"])
        answer["text"] = json.dumps({"token_type": found.get("token_type"), "expires_in": found.get("expires_in")})
    return answer


def peers() -> dict[str, str]:
    """Look up every replica of TF_CONFIG by its name, for a minute at most: they start one after the other."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    end = time.monotonic() + 60
    names = [host.rpartition(":")[0] for hosts in cluster.values() for host in hosts]
    return {name: looked_up(name, end) for name in names}


def looked_up(name: str, end: float) -> str:
    """The address of a name; the error where there is none until ``end``."""
    while True:
        try:
            return socket.gethostbyname(name)
        except OSError as error:
            if time.monotonic() > end:
                return f"error: {error}"
        time.sleep(1)


def look_around() -> dict[str, Any]:
    """Everything that probes ask of the inside of a pod."""
    shared = os.statvfs(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else None
    return {
        "metadata": {path: metadata(path) for path in ASKED},
        "without flavor": metadata("instance/zone", flavor=False)["status"],
        "token": token(),
        "hostname": socket.gethostname(),
        "peers": peers(),
        "shared memory": shared.f_blocks * shared.f_frsize if shared else 0,
        "user": os.getuid(),
        "GPUs": sorted(glob.glob("/dev/nvidia[0-9]*")),
        "nvidia-smi": shutil.which("nvidia-smi", path=os.pathsep.join(DRIVER_FOLDERS)) or "",
        "accelerators": os.environ.get("ENCAMP_SIMULATED_ACCELERATORS", ""),
    }


def report(value: float) -> None:
    """Report the metric of a trial as cloudml-hypertune does."""
    path = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
    if not path:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tag = os.environ["CLOUD_ML_HP_METRIC_TAG"]
    record = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], tag: str(value), "global_step": "1"}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def main() -> None:
    """Look around, report, wait."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--x", type=float, default=0.0)
    parser.add_argument("--job-dir")
    given = parser.parse_args()
    print(INSIDE + json.dumps(look_around()), flush=True)
    report(given.x)
    time.sleep(given.seconds)
    print("the replica ends as it should", flush=True)


if __name__ == "__main__":
    main()
