"""Rights of an environment's reaper: to list and delete what a job may have, and to archive its logs."""

from __future__ import annotations

from typing import Final

from encamp.kinds.google import PROJECT_MEMBER, RESOURCES
from encamp.kinds.model import Deed
from encamp.kinds.rights import ClusterRule, cluster_rules

#: What archiving and the engine's ``destroy`` ask of Google beside the deletions themselves.
_BESIDE: Final = (
    "compute.regionOperations.get",
    "container.clusters.connect",
    "container.operations.get",
    "container.operations.list",
    "logging.logEntries.create",
    "logging.logEntries.list",
    "resourcemanager.projects.get",
    "storage.objects.create",
    "storage.objects.get",
    "storage.objects.list",
    "storage.objects.update",
)
#: What taking a job's grants from the project's policy takes, and with a condition only: who may change a policy at
#: will may do everything.
REAPER_GRANTS: Final = PROJECT_MEMBER.delete
REAPER_PERMISSIONS: Final = tuple(
    sorted(
        {*_BESIDE, *(one for kind in RESOURCES for one in (*kind.see, *kind.delete) if one not in REAPER_GRANTS)},
    )
)
REAPER_RULES: Final = (
    *cluster_rules(Deed.SEE, Deed.DELETE),
    ClusterRule("", ("events",), ("get", "list", "watch")),
    ClusterRule("", ("pods/log",), ("get",)),
)
