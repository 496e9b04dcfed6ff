"""What a job was, what it made, how long, and what that costs: as JSON for programs and as text for people."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.plan.cost import PRICES_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from encamp.run.events import ResourceStep
    from encamp.run.records import RunRecord
    from encamp.run.replicas import Replica

RECEIPT = "receipt.json"
_GIT_SECONDS = 20
_HOUR = 3600.0


@dataclass(frozen=True)
class KeptResults:
    """What a job leaves on purpose.

    Attributes:
        job_dir: None where the job had none.
        prefix: ``gs://`` name of the folder of logs and receipt.
        bucket: the bucket of the job's own that stays, None where there is none.
        until: when logs, receipt and what encamp keeps of the results may be deleted, None where they are kept.
    """

    job_dir: str | None
    prefix: str
    bucket: str | None = None
    until: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """As the receipt has it."""
        return {
            "jobDir": self.job_dir,
            "kept": self.prefix,
            "bucket": f"gs://{self.bucket}" if self.bucket else None,
            "until": self.until.isoformat(timespec="seconds") if self.until else None,
        }


def spec_hash(job: Mapping[str, Any]) -> str:
    """SHA-256 of a job as data, whatever the order and form in which its file says it."""
    return hashlib.sha256(json.dumps(job, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def source_of(folder: Path) -> dict[str, Any] | None:
    """Git commit of a folder and whether files differ from it; None outside a work tree."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "--porcelain")
    return {"commit": commit, "dirty": bool(changes)}


def node_seconds(replicas: Iterable[Replica], machines: Mapping[str, str], until: datetime) -> dict[str, float]:
    """Seconds that replicas held a machine, by machine; each replica has one for itself.

    ``machines`` is each role's machine in words; ``until`` is the end of those that have not ended.
    """
    total: dict[str, float] = {}
    for replica in replicas:
        if not replica.scheduled or replica.role not in machines:
            continue
        begin = datetime.fromisoformat(replica.scheduled)
        end = datetime.fromisoformat(replica.finished) if replica.finished else until
        machine = machines[replica.role]
        total[machine] = total.get(machine, 0.0) + max(0.0, (end - begin).total_seconds())
    return {machine: round(seconds, 3) for machine, seconds in sorted(total.items())}


def resources_of(steps: Sequence[ResourceStep]) -> list[dict[str, Any]]:
    """Every resource with when it was made and deleted, in the order in which they were made."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        entry = found.setdefault(
            step.urn, {"type": step.type, "name": step.name, "id": "", "created": None, "deleted": None}
        )
        entry["id"] = entry["id"] or step.id
        if step.done in {"created", "deleted"}:
            entry[step.done] = step.at.isoformat(timespec="milliseconds")
    return list(found.values())


def build_receipt(
    record: RunRecord,
    *,
    steps: Sequence[ResourceStep],
    seconds: Mapping[str, float],
    hourly: Mapping[str, float],
    logs: Mapping[str, Any],
    left: Sequence[str],
    kept: KeptResults,
) -> dict[str, Any]:
    """A job's receipt.

    Args:
        record: its journal so far.
        steps: what the engine did to which resource.
        seconds: node-seconds by machine.
        hourly: price of an hour by machine, in USD, where it is known.
        logs: the sealed logs' manifest.
        left: what of the job the cloud still lists.
        kept: its results; a bucket of its own counts among what is left.
    """
    intent = record.intent or {}
    priced = {machine: hourly[machine] * spent / _HOUR for machine, spent in seconds.items() if machine in hourly}
    return {
        "version": 1,
        "jobId": record.job_id,
        "name": record.name,
        "outcome": record.outcome.to_json() if record.outcome else None,
        "times": {str(state): at.isoformat(timespec="milliseconds") for state, at in record.times.items()},
        "environment": intent.get("environment"),
        "project": intent.get("project"),
        "specHash": intent.get("specHash"),
        "source": intent.get("source"),
        "images": intent.get("images"),
        "resources": resources_of(steps),
        "nodeSeconds": dict(seconds),
        "cost": {
            "currency": "USD",
            "amount": round(sum(priced.values()), 4) if priced else None,
            "unpriced": sorted(set(seconds) - set(priced)),
            "basis": f"time from schedule to end of each replica, {PRICES_OF}",
        },
        "logs": log_summary(logs),
        "results": kept.to_json(),
        "left": [*left, *([f"bucket gs://{kept.bucket} with the job's results"] if kept.bucket else [])],
        "written": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def log_summary(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a receipt says of the logs by their manifest."""
    entries = manifest.get("replicas", [])
    return {"complete": all(entry["complete"] for entry in entries), "replicas": len(entries)}


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """The receipt for people, one fact a line."""
    outcome = receipt["outcome"] or {}
    resources = receipt["resources"]
    made = sum(1 for one in resources if one["created"])
    gone = sum(1 for one in resources if one["deleted"])
    cost = receipt["cost"]
    source = receipt["source"]
    lines = [f"job          {receipt['jobId']} ({receipt['name']})", f"outcome      {outcome.get('state', 'unknown')}"]
    if outcome.get("message"):
        lines.append(f"             {outcome['message']}")
    lines += [f"{state.lower():<12} {at}" for state, at in receipt["times"].items()]
    if source:
        lines.append(f"source       {source['commit'][:12]}{', with changes' if source['dirty'] else ''}")
    lines.append(f"resources    {made} created, {gone} deleted")
    for machine, spent in receipt["nodeSeconds"].items():
        lines.append(f"machine time {spent:.0f} s of {machine}")
    if cost["amount"] is not None:
        lines.append(f"cost         about {cost['amount']:.4f} {cost['currency']} ({PRICES_OF})")
    if cost["unpriced"]:
        lines.append(f"no price of  {', '.join(cost['unpriced'])}")
    whole = "" if receipt["logs"]["complete"] else ", not all complete"
    lines.append(f"logs         {receipt['logs']['replicas']} replicas{whole}")
    results = receipt.get("results") or {}
    if results.get("jobDir"):
        lines.append(f"job dir      {results['jobDir']}")
    if results.get("until"):
        lines.append(f"kept until   {results['until']}; then `encamp reap` deletes results and logs")
    lines.append(f"left         {', '.join(receipt['left']) or 'nothing'}")
    return "\n".join(lines)


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return answer.stdout.strip()
