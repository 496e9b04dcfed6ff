"""How long operations on node pools are waited for."""

from __future__ import annotations

import pulumi

#: A pool without nodes takes minutes, but GKE changes the pools of a cluster one after another, and none while it
#: upgrades the control plane. The provider would wait for two hours, also where a quota is short (gke-pool-timeout).
_LONGEST_OPERATION = "30m"


def pool_timeouts() -> pulumi.CustomTimeouts:
    """Give the timeouts of a node pool."""
    return pulumi.CustomTimeouts(create=_LONGEST_OPERATION, update=_LONGEST_OPERATION, delete=_LONGEST_OPERATION)
