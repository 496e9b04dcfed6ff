"""Counts steps and keeps the count in its job dir; ``--crash worker-0:12:3`` crashes there and every third step on."""

import argparse
import json
import os
import signal
import time
import urllib.error
import urllib.parse
import urllib.request

METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
STORAGE = "https://storage.googleapis.com"


def asked(url: str, headers: dict[str, str], data: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - the two addresses above
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        body: bytes = answer.read()
    return body


def signed() -> dict[str, str]:
    token: str = json.loads(asked(METADATA, {"Metadata-Flavor": "Google"}))["access_token"]
    return {"Authorization": "Bearer " + token, "Content-Type": "application/json"}


def restored() -> int:
    """The newest checkpoint."""
    try:
        return int(asked(f"{STORAGE}/storage/v1/b/{bucket}/o/{quoted}?alt=media", headers))
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return 0


def save(count: int) -> None:
    asked(f"{STORAGE}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quoted}", headers, str(count).encode())


parser = argparse.ArgumentParser()
parser.add_argument("--crash", default="nobody:0:1")
parser.add_argument("--job-dir", required=True)
given = parser.parse_args()
config = json.loads(os.environ["TF_CONFIG"])
me = "{type}-{index}".format(**config["task"])
bucket, _, folder = given.job_dir[len("gs://") :].partition("/")
quoted = urllib.parse.quote(f"{folder}/{me}", safe="")
headers = signed()
who, first, every = given.crash.split(":")
step = restored()
print(f"{me} begins at step {step} as {json.dumps([config['task'], config['cluster']])}", flush=True)
while True:
    time.sleep(0.4)
    step += 1
    save(step)
    print(f"{me} has done step {step}", flush=True)
    if who == me and step >= int(first) and (step - int(first)) % int(every) == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
