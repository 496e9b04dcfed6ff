"""The jobs of rungs: their ids and plans, and the pod that stands beside one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.ladder import IMAGE
from encamp.packaging.local import local_packages
from encamp.plan.job import plan_job
from encamp.resources import resource
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from encamp.acceptance.ladder import Rung
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job_file import JobFile

#: Ends the name of the pod that no machine can take.
MISFIT: Final = "-misfit"


def job_id(rung: Rung, run: str, before: Collection[str] = ()) -> str:
    """Return the id of a rung's job, by which everybody knows its run; another one than those ``before``."""
    first = f"acceptance_{rung.name.replace('-', '_')}_{run}"
    candidates = (first, *(f"{first}_{count}" for count in range(2, len(before) + 3)))
    return next(one for one in candidates if one not in before)


def is_of_run(job: str, run: str) -> bool:
    """Whether a job's id is that of a rung of a run."""
    return job.startswith("acceptance_") and f"_{run}" in job


def plan_rung(rung: Rung, spec: EnvironmentSpec, chosen: str) -> JobPlan:
    """Return the plan of a rung's job.

    Raises:
        PlanError: it cannot be planned for this environment.
    """
    found = _job_file(rung, spec, resource("templates", "acceptance")).named(chosen)
    return plan_job(found.job, spec, packages=local_packages(found))


def _job_file(rung: Rung, spec: EnvironmentSpec, folder: Path) -> JobFile:
    return parse_job(rung.job(spec), source=f"rung {rung.name}", folder=folder)


def misfit(plan: JobPlan) -> dict[str, Any]:
    """Return a pod that no machine of any pool can take.

    It goes with the job's labels, by which the reaper finds it.
    """
    container = {
        "name": "misfit",
        "image": IMAGE,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{plan.name}{MISFIT}", "namespace": plan.namespace, "labels": {**plan.labels}},
        "spec": {
            "nodeSelector": {"encamp.dev/nowhere": "true"},
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": security,
            "containers": [container],
        },
    }
