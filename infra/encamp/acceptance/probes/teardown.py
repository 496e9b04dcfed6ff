"""Probes of tear-down: what is gone when a job, or everything, was taken down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.probe import of_end, of_job
from encamp.cloud.endpoints import Service

if TYPE_CHECKING:
    from encamp.acceptance.cases import EndCase, JobCase

_NOT_FOUND = 404


@of_job("teardown-deleted-is-404")
def deleted_is_404(case: JobCase) -> str:
    """Read the job's own pools after its tear-down; those that the environment's queues share stay."""
    pools = [f"{case.outputs.cluster_path}/nodePools/{pool.name}" for pool in case.plan.own_pools]
    if not pools:
        raise NotAskedError("the job had no node pool of its own")
    for pool in pools:
        answer = case.client.request(Service.CONTAINER, "GET", f"/v1/{pool}", accept=frozenset({_NOT_FOUND}))
        expect(answer.status_code == _NOT_FOUND, f"{pool} is answered with {answer.status_code} after its deletion")
    return f"{len(pools)} pools are 404"


@of_job("teardown-operations-end")
def operations_end(case: JobCase) -> str:
    """Look at the operations on the job's pools."""
    if not case.operations:
        raise NotAskedError(case.refused.get("operations") or "GKE lists no operation on the job's pools")
    for one in case.operations:
        trouble = one.get("error") or one.get("statusMessage")
        saw = f"{one['operationType']} is {one['status']}{f', {trouble}' if trouble else ''}"
        expect(one["status"] == "DONE" and not trouble, saw)
    return f"{len(case.operations)} operations are DONE"


@of_job("teardown-destroy-leaves-nothing")
def destroy_leaves_nothing(case: JobCase) -> str:
    """Look for what the engine had destroyed and Google still listed, and at what the receipt names as left."""
    if case.receipt is None or case.rung.kill is not None:
        raise NotAskedError("its driver was killed, or it has no receipt")
    expect(not case.swept, f"the engine reported success, and Google still listed {', '.join(case.swept)}")
    expect(not case.receipt.get("left"), f"left: {', '.join(case.receipt.get('left') or ())}")
    return f"{len(case.receipt.get('resources') or ())} resources were made and are gone"


@of_end("teardown-nothing-is-left")
def nothing_is_left(case: EndCase) -> str:
    """Look at every listing after everything was taken down."""
    left = [f"{kind} {name}" for kind, names in case.left.items() for name in names]
    expect(not left, f"Google still lists {', '.join(left)}")
    if case.unknown:
        raise NotAskedError("; ".join(f"{kind}: {why}" for kind, why in case.unknown.items()))
    return "no listing has anything of the run"
