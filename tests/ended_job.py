"""Stores what a job leaves that another machine ran to its end: receipt, manifest and one log, in a fake bucket."""

from __future__ import annotations

import hashlib
import json
from typing import Any

BUCKET = "sandbox-encamp-artifacts"


def store_ended_job(google: Any, log: bytes, message: str, receipt: dict[str, Any], **files: bytes) -> str:
    """Store a job that failed, and return its id.

    Args:
        google: the fake of Google's services.
        log: of its master.
        message: why it failed.
        receipt: fields of its receipt beside those that every job has.
        files: further objects by their names below the job's folder.
    """
    whole: dict[str, Any] = {
        "version": 2,
        "jobId": "digits_1",
        "name": "digits-1-abc",
        "outcome": {"state": "FAILED", "message": message},
        "times": {
            "QUEUED": "2026-05-02T10:00:00.000+00:00",
            "RUNNING": "2026-05-02T10:01:00.000+00:00",
            "FAILED": "2026-05-02T10:02:30.000+00:00",
        },
        "environment": "sandbox",
        "left": [],
        **receipt,
    }
    entry = {
        "replica": "master-replica-0",
        "object": f"gs://{BUCKET}/jobs/digits_1/logs/master-replica-0.log",
        "size": len(log),
        "sha256": hashlib.sha256(log).hexdigest(),
        "complete": False,
        "reason": "the pod is gone",
        "exitCode": 3,
    }
    for name, content in {
        "receipt.json": json.dumps(whole).encode(),
        "logs/manifest.json": json.dumps({"version": 1, "replicas": [entry]}).encode(),
        "logs/master-replica-0.log": log,
        **files,
    }.items():
        google.objects[BUCKET, f"jobs/digits_1/{name}"] = content
    return "digits_1"
