"""Jobs for who reads their logs: which there are, what each says of who may do what, and whole records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.api.jobs import grants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.api.access import JobGrants
    from encamp.api.index import Index
    from encamp.run.journal import RunRecord
    from encamp.run.records import Records


class JobLookup:
    """The jobs of one environment."""

    def __init__(self, records: Records, index: Index) -> None:
        self._records = records
        self._index = index

    def record(self, job_id: str) -> RunRecord | None:
        """A job's record with all of its entries, None where there is no such job here."""
        self._index.refresh()
        return self._records.record(job_id) if self._index.job(job_id) is not None else None

    def grants(self, job_id: str) -> JobGrants | None:
        """What a job says of who may do what to it, None where there is no such job here."""
        self._index.refresh()
        known = self._index.job(job_id)
        return grants(known.record) if known is not None else None

    def newest(self) -> Iterator[str]:
        """Ids, the newest job's first."""
        self._index.refresh()
        return (known.record.job_id for known in self._index.newest_first())
