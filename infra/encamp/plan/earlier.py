"""Decisions of an earlier ``up`` of a job's stack that a later one keeps.

A running job must not lose its account, its machines or its packages because encamp was upgraded, or because the
environment's defaults changed. So a stack keeps what its file leaves open as it was decided first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.spec.encamp import IdentityMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import NodePoolPlan


@dataclass(frozen=True)
class EarlierUp:
    """Decisions that a later ``up`` of the same job keeps.

    Attributes:
        name: its cloud name, whatever names are made of by now; None if the outputs do not say.
        mode: the replicas' kind of identity, unless the job file says it.
        pools: names of node pools of the job's own.
        has_scratch: whether the job has a scratch bucket.
    """

    name: str | None
    mode: IdentityMode
    pools: frozenset[str]
    has_scratch: bool

    def owns(self, pool: NodePoolPlan) -> bool:
        """Whether the job has this node pool already."""
        return pool.name in self.pools


def earlier_up(outputs: Mapping[str, Any]) -> EarlierUp | None:
    """Read the outputs of a job's stack; None if it has none yet.

    Outputs of stacks of before do not say who replicas are: each job had an account then, unless its file asked for
    none. The engine keeps no output that is null.
    """
    if "jobSet" not in outputs:
        return None
    return EarlierUp(
        name=str(outputs["name"]) if outputs.get("name") else None,
        mode=IdentityMode(outputs.get("identityMode", IdentityMode.SERVICE_ACCOUNT)),
        pools=frozenset(outputs.get("nodePools") or ()),
        has_scratch=bool(outputs.get("scratchBucket")),
    )
