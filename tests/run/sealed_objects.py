"""A sealed log with its manifest, as objects of a bucket."""

from __future__ import annotations

import hashlib
import json


def sealed_objects(bucket: str, prefix: str, replica: str, text: bytes) -> dict[tuple[str, str], bytes]:
    """The objects of one replica's sealed log, by bucket and name."""
    name = f"{prefix}logs/{replica}.log"
    entry = {
        "replica": replica,
        "object": f"gs://{bucket}/{name}",
        "size": len(text),
        "sha256": hashlib.sha256(text).hexdigest(),
        "complete": True,
        "reason": "",
    }
    manifest = json.dumps({"version": 1, "replicas": [entry]}).encode()
    return {(bucket, name): text, (bucket, f"{prefix}logs/manifest.json"): manifest}
