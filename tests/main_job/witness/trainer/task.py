"""Writes its arguments, environment and host name below its job dir; worker 1 is killed once and comes back.

The master ends the job when it has read what the others wrote.
"""

import json
import os
import signal
import socket
import sys
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


def quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def exists(name: str) -> bool:
    try:
        asked(STORAGE + "/storage/v1/b/" + quoted(bucket) + "/o/" + quoted(name), signed())
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def write(name: str, content: dict[str, object]) -> None:
    query = "?uploadType=media&name=" + quoted(name)
    asked(STORAGE + "/upload/storage/v1/b/" + quoted(bucket) + "/o" + query, signed(), json.dumps(content).encode())


bucket, _, folder = sys.argv[sys.argv.index("--job-dir") + 1][len("gs://") :].partition("/")
task = json.loads(os.environ["TF_CONFIG"])["task"]
me = "{}/{}-{}".format(folder, task["type"], task["index"])
first = not exists(me + "-0.json")
given: dict[str, object] = {"argv": sys.argv[1:], "environ": dict(os.environ), "host": socket.gethostname()}
write(me + ("-0.json" if first else "-1.json"), given)
if task == {"type": "worker", "index": 1} and first:
    os.kill(os.getpid(), signal.SIGKILL)
if task["type"] == "chief":
    while not (exists(folder + "/worker-0-0.json") and exists(folder + "/worker-1-1.json")):
        time.sleep(0.5)
else:
    time.sleep(600)
