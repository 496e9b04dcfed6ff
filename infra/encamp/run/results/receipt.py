"""The receipt of a job: what it made, for how long, and what that costs, as JSON for programs and text for people."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from encamp.duration import Duration
from encamp.run.engine.made import resources_of
from encamp.run.results.notices import notices_of
from encamp.run.results.source import source_text
from encamp.run.store.actor import deeds_of
from encamp.run.store.study_results import recorded_results, summary_of
from encamp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from encamp.run.engine.events import ResourceStep
    from encamp.run.store.records import RunRecord

RECEIPT = "receipt.json"
#: 1 knew neither the job as data, nor image digests, costs of machines, and when nothing was left.
VERSION = 2
#: What costs are by that do not say it: those of jobs of before.
PRICES_OF = "list prices of us-central1"
#: Digits of an amount after the point.
DECIMALS = 4
_HOUR = 3600.0


@dataclass(frozen=True)
class KeptResults:
    """The results that a job leaves on purpose.

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


def build_receipt(
    record: RunRecord,
    *,
    steps: Sequence[ResourceStep],
    seconds: Mapping[str, float],
    digests: Mapping[str, Sequence[str]],
    hourly: Mapping[str, float],
    prices_of: str | None,
    logs: Mapping[str, Any],
    left: Sequence[str],
    kept: KeptResults,
    gone: datetime | None,
) -> dict[str, Any]:
    """A job's receipt.

    Args:
        record: its journal so far.
        steps: what the engine, or the sweep after it, did to which resource.
        seconds: node-seconds by machine.
        digests: of what each role ran.
        hourly: price of an hour by machine, in USD, where it is known.
        prices_of: whose prices of when they are; jobs of before did not say it.
        logs: the sealed logs' manifest.
        left: what of the job the cloud still lists.
        kept: its results; a bucket of its own counts among what is left.
        gone: when the cloud's own listing showed that nothing is left, None where it did not.
    """
    intent, study = record.intent or {}, recorded_results(record)
    return {
        "version": VERSION,
        "jobId": record.job_id,
        "name": record.name,
        "outcome": record.outcome.to_json() if record.outcome else None,
        "by": deeds_of(record),
        "times": {str(state): at.isoformat(timespec="milliseconds") for state, at in record.times.items()},
        "environment": intent.get("environment"),
        "project": intent.get("project"),
        "job": intent.get("job"),
        "specHash": intent.get("specHash"),
        "source": intent.get("source"),
        "encampVersion": __version__,
        "images": intent.get("images"),
        "imageDigests": {role: list(found) for role, found in digests.items()},
        "resources": resources_of(steps, gone),
        "sharedPools": list(intent.get("sharedPools") or ()),
        "nodeSeconds": dict(seconds),
        "cost": cost_of(seconds, hourly, prices_of),
        "logs": log_summary(logs),
        "results": kept.to_json(),
        "left": [*left, *([f"bucket gs://{kept.bucket} with the job's results"] if kept.bucket else [])],
        "gone": gone.isoformat(timespec="milliseconds") if gone else None,
        **({"trials": summary_of(study)} if study is not None else {}),
        **({"notices": told} if (told := notices_of(record)) else {}),
        "written": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def log_summary(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a receipt's entry about the logs by their manifest."""
    entries = manifest.get("replicas", [])
    return {"complete": all(entry["complete"] for entry in entries), "replicas": len(entries)}


def cost_of(seconds: Mapping[str, float], hourly: Mapping[str, float], prices_of: str | None = None) -> dict[str, Any]:
    """Return the cost of each machine, rounded to the hundredth of a cent, and their sum, of the rounded costs."""
    priced = {machine: hourly[machine] * spent / _HOUR for machine, spent in seconds.items() if machine in hourly}
    machines = {machine: round(amount, DECIMALS) for machine, amount in priced.items()}
    return {
        "currency": "USD",
        "amount": exact_sum(machines.values()) if machines else None,
        "machines": machines,
        "unpriced": sorted(set(seconds) - set(priced)),
        "prices": prices_of or PRICES_OF,
        "basis": f"time from schedule to end of each replica, waits for restarts and its boot disk among it, "
        f"{prices_of or PRICES_OF}",
    }


def exact_sum(amounts: Iterable[float], digits: int = DECIMALS) -> float:
    """The sum of amounts as they are shown, with ``digits`` after the point: whoever adds them up gets the same."""
    return float(sum((Decimal(f"{amount:.{digits}f}") for amount in amounts), Decimal()))


def outcome_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Which job it was and how it ended, for people."""
    outcome = receipt.get("outcome") or {}
    lines = [f"job          {receipt['jobId']} ({receipt['name']})", f"outcome      {outcome.get('state', 'unknown')}"]
    return [*lines, f"             {outcome['message']}"] if outcome.get("message") else lines


def short_receipt(receipt: Mapping[str, Any]) -> str:
    """Return a job's results, its cost and what is left of it, as text for people."""
    spent = _spent_lines(receipt, short=True)
    lines = [*outcome_lines(receipt), *_trial_lines(receipt.get("trials")), *spent, *_result_lines(receipt)]
    lines += _notice_lines(receipt)
    if "left" in receipt:
        lines.append(f"left         {', '.join(receipt['left']) or 'nothing'}")
    return "\n".join(lines)


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """The whole receipt for people, one fact a line."""
    source = receipt.get("source")
    lines = outcome_lines(receipt)
    lines += _trial_lines(receipt.get("trials"))
    lines += [f"{state.lower():<12} {at}" for state, at in receipt["times"].items()]
    lines += [f"{one['did']:<12} by {one['by']} at {one['at']}" for one in receipt.get("by") or ()]
    if receipt.get("specHash"):
        lines.append(f"spec         sha256:{receipt['specHash']}")
    if source:
        lines.append(f"source       {source_text(source)}")
    if receipt.get("encampVersion"):
        lines.append(f"encamp       {receipt['encampVersion']}")
    lines += [*_image_lines(receipt), *_spent_lines(receipt), *_result_lines(receipt)]
    lines += _notice_lines(receipt)
    since = f", since {receipt['gone']}" if receipt.get("gone") else ""
    if "left" in receipt:
        lines.append(f"left         {', '.join(receipt['left']) or f'nothing{since}'}")
    return "\n".join(lines)


def _trial_lines(trials: Mapping[str, Any] | None) -> list[str]:
    """How many trials there were, and the best of them."""
    if trials is None:
        return []
    counts = ", ".join(
        f"{trials[state]} {state}" for state in ("succeeded", "failed", "cancelled") if trials.get(state)
    )
    early = f", {trials['stoppedEarly']} stopped early" if trials.get("stoppedEarly") else ""
    lines = [f"trials       {counts or 'none ended'}{early}, of {trials['most']}"]
    best = trials.get("best")
    return (
        [*lines, f"best         trial {best['trialId']}, {best['metric']:g} at step {best['step']}"] if best else lines
    )


def _image_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Each role's image, with the digests that are known; the sandbox's processes and lost nodes tell none."""
    digests = receipt.get("imageDigests") or {}
    return [
        f"image        {role}: {image} ({', '.join(digests.get(role) or ()) or 'digest not known'})"
        for role, image in (receipt.get("images") or {}).items()
    ]


def _result_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Where the results are, and until when."""
    results = receipt.get("results") or {}
    lines = [f"job dir      {results['jobDir']}"] if results.get("jobDir") else []
    if results.get("until"):
        lines.append(f"kept until   {results['until']}; then `encamp reap` deletes results and logs")
    return lines


def _notice_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Who was told of the job's end, and why somebody was not."""
    told = [f"{one['target']} ({'sent' if one['sent'] else one.get('why')})" for one in receipt.get("notices") or ()]
    return [f"notices      {', '.join(told)}"] if told else []


def _spent_lines(receipt: Mapping[str, Any], *, short: bool = False) -> list[str]:
    """Resources, machine time, cost and logs; nothing of what a receipt says nothing about."""
    lines: list[str] = []
    resources, cost, logs = receipt.get("resources"), receipt.get("cost") or {}, receipt.get("logs")
    if resources is not None:
        made, gone = (sum(1 for one in resources if one.get(done)) for done in ("created", "deleted"))
        lines.append(f"resources    {made} created, {gone} deleted")
        lines += [] if short else [f"             {_lived(one)}" for one in resources]
    machines = cost.get("machines") or {}
    if receipt.get("sharedPools"):
        shared = ", ".join(receipt["sharedPools"])
        lines.append(f"shared       {shared}: machines of the environment, counted for the time of the job's replicas")
    for machine, spent in (receipt.get("nodeSeconds") or {}).items():
        price = f", {machines[machine]:.{DECIMALS}f} {cost['currency']}" if machine in machines else ""
        time = Duration.of(round(spent)).words if short else f"{spent:.3f} s"
        lines.append(f"machine time {time} of {machine}{price}")
    if cost.get("amount") is not None:
        whose = cost.get("prices") or PRICES_OF
        lines.append(f"cost         about {cost['amount']:.{DECIMALS}f} {cost['currency']} ({whose})")
    if cost.get("unpriced"):
        lines.append(f"no price of  {', '.join(cost['unpriced'])}")
    if logs is not None:
        whole = "" if logs["complete"] else ", not all complete"
        lines.append(f"logs         {logs['replicas']} replicas{whole}")
    return lines


def _lived(resource: Mapping[str, Any]) -> str:
    """From when to when a resource was there."""
    kind = str(resource["type"]).rpartition(":")[2]
    end = resource.get("deleted") or (f"gone by {resource['goneBy']}" if resource.get("goneBy") else "still there")
    if resource.get("kept"):
        end = "kept"
    return f"{resource.get('created') or 'not seen made'}  {end}  {kind} {resource['name']}"
