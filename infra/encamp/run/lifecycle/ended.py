"""The end of a job, read from its record or receipt by processes that did not drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError, EngineError, ExitCode, TeardownError, UsageError
from encamp.run.lifecycle.ending import RunResult
from encamp.run.store.states import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.run.history.catalogue import KnownJob
    from encamp.run.store.records import RunRecord

#: Journal entry of the error that ended a job before its training had an outcome of its own.
FAILURE = "failure"


def failure_data(error: EncampError) -> dict[str, Any]:
    """Return an error as the journal keeps it."""
    return {"what": error.what, "where": error.where, "hint": error.hint, "exitCode": int(error.exit_code)}


def result_of(job: KnownJob, record: RunRecord | None) -> RunResult:
    """Return the result of a job that has ended, as its driver had it.

    Raises:
        UsageError: neither record nor receipt say how it ended.
    """
    receipt = job.receipt
    outcome = record.outcome if record is not None else None
    if outcome is None and receipt is not None:
        outcome = Outcome.from_json(dict(receipt["outcome"]))
    if outcome is None:
        raise UsageError(
            "the record does not say how this job ended", where=job.job_id, hint="`encamp reap` settles it"
        )
    left = tuple((receipt or {}).get("left") or ()) if not job.torn_down else ()
    return RunResult(
        job.job_id,
        outcome,
        dict(receipt) if receipt is not None else None,
        left,
        f"gs://{job.bucket}/{job.prefix}",
        _failure(record),
        None if job.torn_down else _not_down(job, left),
    )


def _failure(record: RunRecord | None) -> EncampError | None:
    entries = [entry.data for entry in record.entries if entry.kind == FAILURE] if record is not None else []
    if not entries:
        return None
    return _error(entries[-1])


def _error(data: Mapping[str, Any]) -> EncampError:
    kind = UsageError if data.get("exitCode") == ExitCode.BAD_INPUT else EngineError
    return kind(str(data.get("what")), where=data.get("where"), hint=data.get("hint"))


def _not_down(job: KnownJob, left: tuple[str, ...]) -> TeardownError:
    what = f"tear-down did not come to its end; left: {', '.join(left) or 'nothing that is known'}"
    return TeardownError(what, where=job.job_id, hint="run `encamp reap`; what it cannot delete it names")
