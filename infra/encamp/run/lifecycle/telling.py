"""Tells the project's own log how jobs end, for its metrics and alerts.

Nobody's job depends on it: who may not write there, or is not answered, reads so in one line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from encamp.cloud.logging import write_entry
from encamp.errors import EncampError
from encamp.plan.environment.job_log import COST, EVENT, JOB, LOG_ID, STATE, WHY, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.cloud.rest import GoogleClient
    from encamp.run.store.states import Outcome

_SEVERITIES = {Event.ENDED: "NOTICE", Event.NOT_ENDED: "CRITICAL", Event.REAPED: "INFO"}


class Teller:
    """Writes entries of one environment's jobs.

    Args:
        labels: owner, environment, and of one job its own.
        cluster: ``projects/P/locations/L/clusters/C``, or empty.
    """

    def __init__(
        self,
        client: GoogleClient,
        *,
        project: str,
        cluster: str,
        labels: Mapping[str, str],
        show: Callable[[str], None],
    ) -> None:
        self._client = client
        self._project = project
        self._cluster = cluster
        self._labels = dict(labels)
        self._show = show

    def ended(self, job: str, name: str, outcome: Outcome, receipt: Mapping[str, Any] | None) -> None:
        """Write that a job has an outcome; its receipt says what it cost."""
        known = receipt or {}
        cost = (known.get("cost") or {}).get("amount")
        self._tell(
            Event.ENDED,
            {
                JOB: job,
                "name": name,
                STATE: str(outcome.state),
                WHY: outcome.message,
                **({COST: cost} if cost is not None else {}),
                "nodeSeconds": known.get("nodeSeconds") or {},
            },
        )

    def not_ended(self, job: str, why: str, left: Sequence[str] = ()) -> None:
        """Write that something of a job may still exist."""
        self._tell(Event.NOT_ENDED, {JOB: job, WHY: why, "left": list(left)})

    def reaped(self, looked_at: int, troubles: int) -> None:
        """Write that every job of the environment was looked at."""
        self._tell(Event.REAPED, {"jobs": looked_at, "troubles": troubles})

    def _tell(self, event: Event, payload: Mapping[str, Any]) -> None:
        try:
            write_entry(
                self._client,
                self._project,
                LOG_ID,
                {EVENT: str(event), **payload},
                severity=_SEVERITIES[event],
                labels=self._labels,
                resource=_resource(self._cluster),
            )
        except EncampError as error:
            self._show(f"the project's log was not told that the job is {event}: {error.what}")


def _resource(cluster: str) -> dict[str, Any]:
    """Return the monitored resource that an entry is about (cloud.google.com/monitoring/api/resources)."""
    found = re.fullmatch(r"projects/([^/]+)/locations/([^/]+)/clusters/([^/]+)", cluster)
    if found is None:
        return {"type": "global"}
    keys = ("project_id", "location", "cluster_name")
    return {"type": "k8s_cluster", "labels": dict(zip(keys, found.groups(), strict=True))}
