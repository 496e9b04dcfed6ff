"""The IAM methods of jobs: reading and replacing a job's own policy, and testing the caller's permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.api.errors import ApiError
from encamp.api.job_policy import checked_policy
from encamp.api.jobs import changed
from encamp.api.resource import etag
from encamp.run.store.records import ChangedError

if TYPE_CHECKING:
    from encamp.api.access import Access
    from encamp.api.answering import Answer
    from encamp.api.index import Index
    from encamp.api.jobs import Call, Jobs
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records

_VERSIONS = frozenset({"0", "1", "3"})


class Policies:
    """The policies of one environment's jobs."""

    def __init__(self, jobs: Jobs, records: Records, index: Index, access: Access) -> None:
        self._jobs = jobs
        self._records = records
        self._index = index
        self._access = access

    def get(self, call: Call) -> Answer:
        """Return a Policy; one that was never set has an etag alone."""
        version = call.query.get("options.requestedPolicyVersion", "1")
        if version not in _VERSIONS:
            raise ApiError("INVALID_ARGUMENT", "options.requestedPolicyVersion: must be 0, 1 or 3.")
        return _shown(self._jobs.recorded(call, "ml.jobs.getIamPolicy"))

    def set(self, call: Call) -> Answer:
        """Return the Policy as it is from now on."""
        record = self._jobs.recorded(call, "ml.jobs.setIamPolicy")
        policy = checked_policy(call.body)
        sent = policy.pop("etag", None)
        if sent is not None and sent != _etag(record):
            raise changed()
        try:
            self._records.set_policy(record.job_id, policy, record.policy_changes if sent is not None else None)
        except ChangedError:
            raise changed() from None
        return _shown(self._index.record(record.job_id) or record)

    def test(self, call: Call) -> Answer:
        """Test which of the permissions the caller has; none on a job that does not exist."""
        self._index.refresh()
        known = self._index.job(call.values["job"])
        return self._access.tested(call.caller, call.body, self._index.grants(known) if known is not None else None)


def _shown(record: RunRecord) -> dict[str, Any]:
    return {**(record.policy or {}), "etag": _etag(record)}


def _etag(record: RunRecord) -> str:
    return etag(f"{record.job_id}/policy", record.policy_changes)
