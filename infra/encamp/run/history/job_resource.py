"""The Job resource as AI Platform Training showed it, with encamp's own block.

A field that is not known is left out, as the service did. ``consumedMLUnits`` is never known: no table says how many
units today's machines are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from encamp.run.history.known_study import study_results
from encamp.run.history.sealed import replica_ends
from encamp.run.results.receipt import RECEIPT, spec_hash
from encamp.run.store.study_results import REPORT, training_output
from encamp.run.times import rfc3339

if TYPE_CHECKING:
    from encamp.cloud.storage import Storage
    from encamp.run.history.catalogue import KnownJob

#: Fields of the job file that are part of the resource.
_WRITTEN = ("labels", "trainingInput")


def job_resource(job: KnownJob, storage: Storage, spool: Path) -> dict[str, Any]:
    """Return the Job resource with the block ``encamp`` beside it.

    ``spool`` is the folder of this machine where a driver would keep the job's logs.

    Raises:
        RestError: the bucket cannot be read.
    """
    results = study_results(job, storage)
    resource = {
        "jobId": job.job_id,
        **_as_sent(job),
        "createTime": rfc3339(job.created),
        "startTime": rfc3339(job.started),
        "endTime": rfc3339(job.ended),
        "state": job.state,
        "jobPosition": str(job.position) if job.position else None,
        "errorMessage": job.message or None,
        "trainingOutput": training_output(results) if results is not None else None,
        "encamp": _own(job, storage, spool),
    }
    return {key: value for key, value in resource.items() if value is not None}


def _own(job: KnownJob, storage: Storage, spool: Path) -> dict[str, Any]:
    receipt = job.receipt or {}
    folder = f"gs://{job.bucket}/{job.prefix}"
    results = receipt.get("results") or {}
    job_dir = results.get("jobDir") or (job.intent.job_dir if job.intent else None)
    own = {
        "name": job.name,
        "environment": receipt.get("environment") or _environment(job),
        "stack": job.intent.stack if job.intent else None,
        "driver": job.driver,
        "jobDir": job_dir,
        "results": folder,
        "resultsBucket": results.get("bucket"),
        "keptUntil": results.get("until"),
        "resultsDeleted": results.get("deleted"),
        "receipt": f"{folder}{RECEIPT}" if job.receipt else None,
        "trials": receipt.get("trials"),
        "report": f"{folder}{REPORT}" if receipt.get("trials") else None,
        "specHash": receipt.get("specHash") or (job.intent.spec_hash if job.intent else None),
        "source": receipt.get("source") or (job.intent.source if job.intent else None),
        "encampVersion": receipt.get("encampVersion"),
        "imageDigests": receipt.get("imageDigests"),
        "startedBy": job.started_by.get("by"),
        "cancelRequested": _cancelled(job),
        "deadline": rfc3339(job.intent.deadline) if job.intent else None,
        "nodeSeconds": receipt.get("nodeSeconds"),
        "cost": receipt.get("cost"),
        "left": receipt.get("left"),
        "restarts": job.restarts.to_json() if job.restarts is not None else None,
        "costSoFarUsd": job.cost_so_far(datetime.now(UTC)),
        "replicas": replica_ends(job, storage, spool) or None,
    }
    return {key: value for key, value in own.items() if value is not None}


def _environment(job: KnownJob) -> str | None:
    if job.intent is not None:
        return job.intent.environment
    return job.submitted.environment if job.submitted is not None else None


def _cancelled(job: KnownJob) -> dict[str, Any] | None:
    """Return who requested the job's end, and when; None if nobody did."""
    return {"by": job.cancel.by, "at": rfc3339(job.cancel.at)} if job.cancel is not None else None


def _as_sent(job: KnownJob) -> dict[str, Any]:
    """Return the job as it was submitted, from the record or the receipt, without secrets of a known form.

    Records of before did not; then it is what the config of the job's stack says, while that is here and is the very
    job that the record is about.
    """
    data = (job.submitted.job if job.submitted else None) or (job.intent.job if job.intent else None)
    data = data or (job.receipt or {}).get("job")
    if not isinstance(data, dict):
        data = _configured(job)
        if not isinstance(data, dict) or job.intent is None or spec_hash(data) != job.intent.spec_hash:
            return {}
    if job.labels is not None:
        data = {**data, "labels": dict(job.labels)}
    return {key: data[key] for key in _WRITTEN if data.get(key)}


def _configured(job: KnownJob) -> Any:
    """Return ``encamp:job`` of the config file of the job's stack, None if it cannot be had."""
    if job.intent is None or not job.intent.folder:
        return None
    try:
        file = Path(job.intent.folder) / f"Pulumi.{job.intent.stack}.yaml"
        return yaml.safe_load(file.read_text())["config"]["encamp:job"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return None
