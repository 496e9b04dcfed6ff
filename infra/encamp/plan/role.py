"""What a replica is for; apart from the plan, so that who needs no more of it starts sooner."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a replica is for. The primary is always called master here, also where TF_CONFIG says chief."""

    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"
    EVALUATOR = "evaluator"
