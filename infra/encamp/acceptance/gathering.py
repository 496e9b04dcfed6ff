"""Gathering of probes' inputs after a job's end: receipt, stored logs, operations, lines in Cloud Logging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp.acceptance.cases import JobCase
from encamp.acceptance.rung_jobs import MISFIT
from encamp.cloud.endpoints import Service
from encamp.cloud.resources import Container
from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.run.logs.driver_logs import SealedLogs
from encamp.run.logs.replicas import CONTAINER
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from encamp.acceptance.ladder import Rung
    from encamp.acceptance.sightings import Sightings
    from encamp.ci.preview import Previewed
    from encamp.cloud.rest import GoogleClient
    from encamp.plan.model import JobPlan
    from encamp.run.history.catalogue import KnownJob
    from encamp.run.store.outputs import EnvironmentOutputs
    from encamp.run.store.records import RunRecord
    from encamp.spec.environment import EnvironmentSpec

_LONGEST_LOG: Final = 1_000_000
_MOST_LINES: Final = 200


def gather(
    rung: Rung,
    environment: EnvironmentSpec,
    plan: JobPlan,
    known: KnownJob,
    record: RunRecord | None,
    *,
    client: GoogleClient,
    outputs: EnvironmentOutputs,
    sightings: Sightings,
    refused: Mapping[str, str],
    preview: Previewed | None,
) -> JobCase:
    """Return all data of a rung's ended job; data that cannot be had is noted with its reason."""
    missing = dict(refused)
    storage = Storage(client)
    pools = tuple(f"/nodePools/{pool.name}" for pool in plan.node_pools)
    operations = _tried(lambda: Container(client).operations(outputs.cluster_path, pools), "operations", missing)
    return JobCase(
        rung=rung,
        environment=environment,
        plan=plan,
        outputs=outputs,
        client=client,
        state=State(known.state),
        times=known.times,
        sightings=sightings,
        refused=missing,
        receipt=known.receipt,
        logs=dict(_logs(storage, known)),
        operations=tuple(operations),
        lines=tuple(_tried(lambda: _lines(client, plan), "log entries", missing)),
        preview=preview,
        swept=tuple(_swept(record)),
    )


def _swept(record: RunRecord | None) -> Iterator[str]:
    """Yield what was deleted by its listing; what the engine deletes has a name of the engine's."""
    for entry in record.entries if record is not None else ():
        swept = entry.kind == "resource" and entry.data["done"] == "deleted" and not entry.data.get("urn")
        # The run's own pod, which no engine knows, goes with the job.
        if swept and not entry.data["name"].endswith(MISFIT):
            yield f"{entry.data['type']} {entry.data['name']}"


def _lines(client: GoogleClient, plan: JobPlan) -> Sequence[Mapping[str, Any]]:
    """Return the first lines of the job's containers in Cloud Logging, as it keeps them."""
    wanted = f'resource.type="k8s_container" AND resource.labels.container_name="{CONTAINER}"'
    wanted += f' AND labels."k8s-pod/encamp-job"="{plan.name}"'
    body = {
        "resourceNames": [f"projects/{plan.project}"],
        "filter": wanted,
        "orderBy": "timestamp asc",
        "pageSize": _MOST_LINES,
    }
    answer = client.json(Service.LOGGING, "POST", "/v2/entries:list", json=body)
    found: list[Mapping[str, Any]] = answer.get("entries") or []
    return found


def _logs(storage: Storage, job: KnownJob) -> Iterator[tuple[str, str]]:
    """Yield each replica's stored log."""
    sealed = SealedLogs(storage, job.bucket, job.prefix)
    for replica, size in sealed.sizes().items():
        if size <= _LONGEST_LOG:
            yield replica, b"".join(sealed.read(replica)).decode(errors="replace")


def _tried(
    ask: Callable[[], Sequence[Mapping[str, Any]]], what: str, missing: dict[str, str]
) -> Sequence[Mapping[str, Any]]:
    try:
        return ask()
    except EncampError as error:
        missing[what] = error.what
        return []
