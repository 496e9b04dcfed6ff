"""A receipt from a bucket, judged before it counts: others write to buckets too.

Where a record knows the job, the record alone says how it ended. A receipt is for jobs that no record here knows, and
counts only if every part that encamp works with is of its form and can be true.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from encamp.run.store.states import State

#: Largest difference between clocks of machines.
_CLOCKS = timedelta(days=1)
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Time = TypeAdapter(AwareDatetime)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Failure(_Part):
    replica: str
    exitCode: int | None  # noqa: N815 - as the receipt spells it
    reason: str
    lastLines: list[str]  # noqa: N815


class _Outcome(_Part):
    state: Literal["SUCCEEDED", "FAILED", "CANCELLED"]
    message: str = ""
    failure: _Failure | None = None


class _Cost(_Part):
    currency: Literal["USD"] = "USD"
    amount: _Amount | None = None
    machines: dict[str, _Amount] = {}
    unpriced: list[str] = []
    prices: str | None = None


class _Results(_Part):
    jobDir: str | None = None  # noqa: N815
    kept: str | None = None
    bucket: str | None = None
    until: str | None = None
    deleted: str | None = None


class _Logs(_Part):
    complete: bool
    replicas: Annotated[int, Field(ge=0)]


class _Receipt(_Part):
    version: Literal[1, 2]
    jobId: str  # noqa: N815
    name: str
    environment: str
    outcome: _Outcome
    times: dict[str, str] = {}
    by: list[dict[str, str | None]] | None = None
    nodeSeconds: dict[str, _Amount] = {}  # noqa: N815
    cost: _Cost = _Cost()
    logs: _Logs | None = None
    results: _Results = _Results()
    left: list[str] = []
    resources: list[dict[str, Any]] = []
    sharedPools: list[str] = []  # noqa: N815
    job: dict[str, Any] | None = None
    specHash: str | None = None  # noqa: N815
    source: dict[str, Any] | None = None
    encampVersion: str | None = None  # noqa: N815
    images: dict[str, str] | None = None
    imageDigests: dict[str, list[str]] | None = None  # noqa: N815
    trials: dict[str, Any] | None = None
    gone: str | None = None


class DisbelievedReceiptError(Exception):
    """A receipt that does not count; the message says why."""


def believed_receipt(
    text: bytes, *, job_id: str, environment: str, kept: str, now: datetime | None = None
) -> dict[str, Any]:
    """Read a receipt of a job that no record knows.

    Args:
        text: what lies in the bucket.
        job_id: the job that it must be of.
        environment: name of the environment that it must be of.
        kept: ``gs://`` name of the job's own folder.
        now: until when things may have happened; the current time when None.

    Raises:
        DisbelievedReceiptError: it is damaged, another job's, or cannot be true.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        found = _Receipt.model_validate(data, strict=True) if isinstance(data, dict) else None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise DisbelievedReceiptError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise DisbelievedReceiptError("it is no JSON") from error
    if found is None:
        raise DisbelievedReceiptError("it is no JSON object")
    if (found.jobId, found.environment) != (job_id, environment):
        raise DisbelievedReceiptError("it is of another job or environment")
    if found.results.kept not in {None, kept}:
        raise DisbelievedReceiptError("results.kept is not the job's own folder")
    _check_times(found, (now or datetime.now(UTC)) + _CLOCKS)
    return data


def _check_times(found: _Receipt, latest: datetime) -> None:
    """Check that times are past, and ordered as states are; of end states only the outcome's has one."""
    if not set(found.times) <= set(State):
        raise DisbelievedReceiptError("times names what is no state")
    try:
        times = {state: _Time.validate_python(found.times[state]) for state in State if state in found.times}
    except ValidationError as error:
        raise DisbelievedReceiptError("a time is no RFC 3339 time with an offset") from error
    if any(state.ended and state != found.outcome.state for state in times):
        raise DisbelievedReceiptError("times has the end of another outcome")
    begun = [times[state] for state in (State.QUEUED, State.PREPARING, State.RUNNING) if state in times]
    ends = [times[state] for state in State if state in times and (state.ended or state is State.CANCELLING)]
    ordered = [*begun, *sorted(ends)]
    if any(before > after for before, after in pairwise(ordered)) or any(at > latest for at in ordered):
        raise DisbelievedReceiptError("its times are not in order, or not past")
