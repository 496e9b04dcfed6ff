"""Copies what a job left to this machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.jobs.model import CopiedResults, LeftOutObject
from encamp.run.history.result_copy import Target
from encamp.run.history.result_files import is_living, result_files

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from encamp.jobs.opening import Looking


def copy_results(
    known: Looking, job_id: str, folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None
) -> CopiedResults:
    """Copy a job's results to a folder; arguments and errors as of ``encamp.jobs.results``."""
    job = known.catalogue.job(job_id)
    found = result_files(job, known.storage)
    with closing(Target(Path(folder))) as target:
        files, left_out = found.placed(folds_case=target.folds_case)
        total, there = sum(file.stored.size for file in files), 0

        def came(size: int) -> None:
            nonlocal there
            there += size
            if progress is not None:
                progress(there, total)

        done = target.copy(known.storage, files, came)
    return CopiedResults(
        folder=Path(folder),
        files=done.files,
        size=done.size,
        already_there=done.there,
        left_out=tuple(LeftOutObject(one.uri, one.reason) for one in (*done.left_out, *left_out)),
        goes_on=job.state if is_living(job) else "",
    )
