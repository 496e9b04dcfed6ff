"""The Job resource: the stored part of a request, and the rendering of a record.

What the service does not know it leaves out. Names are camelCase whichever way they were sent, whole numbers of 64 bits
are texts, and output-only fields that a request carries are ignored. Source: the job model, section 1; ml v1's public
discovery form (formats of numbers).
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

from encamp.run.store.states import State
from encamp.run.store.study_results import recorded_results, training_output
from encamp.run.times import rfc3339
from encamp.spec.field_docs import inner_model, parts
from encamp.spec.fields import Int64
from encamp.spec.job import OUTPUT_ONLY
from encamp.spec.training import TrainingInputSpec

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from encamp.run.store.journal import RunRecord
    from encamp.spec.job import TrainingJobSpec

#: Images of the algorithms that AI Platform brought along.
_BUILT_IN: Final = "/cloud-ml-algos/"
_ETAG_BYTES: Final = 8


def kept_job(job: TrainingJobSpec) -> dict[str, Any]:
    """Return a job that keeps every rule, as it is kept and given back: what the request says, and nothing else."""
    data = job.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True, exclude=set(OUTPUT_ONLY))
    return {
        **data,
        **({"trainingInput": _on_wire(TrainingInputSpec, data["trainingInput"])} if "trainingInput" in data else {}),
    }


def job_resource(record: RunRecord) -> dict[str, Any]:
    """Return the resource of a job; its place among those that wait is not in the record.

    ``startTime`` is when every replica had started, ``endTime`` when the training was over.
    """
    sent = sent_job(record)
    labels = record.labels if record.labels is not None else sent.get("labels")
    resource = {
        "jobId": record.job_id,
        "trainingInput": _on_wire(TrainingInputSpec, sent.get("trainingInput") or {}),
        "encamp": sent.get("encamp"),
        "labels": labels or None,
        "createTime": rfc3339(record.times.get(State.QUEUED, record.created)),
        "startTime": rfc3339(record.times.get(State.RUNNING)),
        "endTime": rfc3339(next((at for state, at in record.times.items() if state.ended), None)),
        "state": str(record.state),
        "errorMessage": _message(record),
        "trainingOutput": _output(record, sent),
        "etag": etag(record.job_id, record.label_changes),
    }
    return {key: value for key, value in resource.items() if value is not None}


def sent_job(record: RunRecord) -> dict[str, Any]:
    """Return the Job as it was sent, without secrets of a known form; empty if the record does not know it."""
    if record.submitted is not None:
        return record.submitted.job
    job = (record.intent or {}).get("job")
    return job if isinstance(job, dict) else {}


def etag(job_id: str, changes: int) -> str:
    """Return the etag of a resource, valid base64: it changes with every requested change."""
    fingerprint = hashlib.sha256(f"{job_id}\n{changes}".encode()).digest()
    return base64.b64encode(fingerprint[:_ETAG_BYTES]).decode()


def _message(record: RunRecord) -> str | None:
    """Return why the job has failed, or is being cancelled."""
    if record.outcome is None or record.state not in {State.FAILED, State.CANCELLING, State.CANCELLED}:
        return None
    return record.outcome.message or None


def _output(record: RunRecord, sent: dict[str, Any]) -> dict[str, Any]:
    results = recorded_results(record)
    image = ((sent.get("trainingInput") or {}).get("masterConfig") or {}).get("imageUri")
    return {
        **(training_output(results) if results is not None else {}),
        **({"isBuiltInAlgorithmJob": True} if isinstance(image, str) and _BUILT_IN in image else {}),
    }


def _on_wire(model: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
    """Return JSON data of a model with its 64-bit numbers as texts."""
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    return {key: _value(fields[key], value) if key in fields else value for key, value in data.items()}


def _value(info: FieldInfo, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(info, item) for item in value]
    inner = inner_model(info)
    if inner is not None and isinstance(value, dict):
        return _on_wire(inner, value)
    return str(value) if Int64 in parts(info.annotation) else value
