"""The end of a study, whoever ends it: no trial stays open on record, and its results are kept."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.errors import EncampError
from encamp.run.store.study_results import keep_results, recorded_results
from encamp.run.store.trial_journal import TRIAL, trials_of
from encamp.run.studies.verdict import final_of
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.storage import Storage
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Lease, Records

_WHY = "the job ended before it did"


def close_trials(records: Records, lease: Lease, clock: Callable[[], float] = time.time) -> None:
    """Put on record that trials that have not ended were cancelled; to be called when nothing of them runs any more.

    Raises:
        LeaseLostError: another driver has the job.
    """
    record = records.record(lease.job_id)
    for trial in trials_of(record.entries) if record is not None else ():
        if trial.job_id != lease.job_id or trial.state.ended:
            continue
        final = final_of(trial.measurements)
        if trial.stopped_early and final is not None:
            ended = replace(trial, state=TrialState.SUCCEEDED, final=final, ended=clock())
        else:
            ended = replace(trial, state=TrialState.CANCELLED, message=_WHY, ended=clock())
        records.append(lease, TRIAL, ended.to_json())


def keep_study(records: Records, storage: Storage, intent: Intent, show: Callable[[str], None]) -> None:
    """Keep what the study came to beside the job's logs and receipt: for programs, and as a page for people."""
    record = records.record(intent.job_id)
    results = recorded_results(record) if record is not None else None
    if results is None:
        return
    try:
        keep_results(storage, intent.artifacts_bucket, intent.prefix, results)
    except EncampError as error:
        show(f"the trials are in the record only: {error.what}")
