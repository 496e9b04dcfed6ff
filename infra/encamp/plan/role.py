"""Roles of replicas; apart from the plan, so that modules that need only roles start sooner."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The role of a replica. The primary is always called master here, also where TF_CONFIG says chief."""

    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"
    EVALUATOR = "evaluator"
