"""Drivers of jobs as Kubernetes Jobs of the environment's cluster: whose they are, and what each is made of.

A driver may do what AI Platform's ``ml.developer`` may, by the same table; whoever may start jobs may start a driver,
so that nobody gains a right by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError, UsageError
from encamp.plan.names import LONGEST_NAME, service_account_email, short_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.access_model import SubjectPlan
    from encamp.spec.environment import EnvironmentSpec

#: The role of AI Platform whose rights a driver has.
ROLE = "ml.developer"
#: Where a driver finds its job.
JOB_FOLDER, JOB_FILE = "/job", "job.json"
#: Exit codes of ``encamp drive`` that another try cannot change: failed, bad input, cancelled.
_FINAL_CODES = (1, 2, 5)
#: How often a driver whose pod died, or that the infrastructure failed, is begun again.
_TRIES = 6
#: Ended drivers stay for a week, for whoever reads their logs in the cluster.
_KEPT_SECONDS = 7 * 24 * 3600
#: A driver that is told to go leaves its job alone, and needs seconds to write that down.
_GRACE_SECONDS = 60
_LABEL = "encamp-drives"


@dataclass(frozen=True)
class DriverPlan:
    """Drivers in the environment's cluster, decided.

    Attributes:
        name: of their service account at Google, and of namespace and account in the cluster.
        email: of that service account.
        record_secret: a Secret whose keys become the pods' variables.
        submitters: who may hand jobs over to them, as Kubernetes knows them.
    """

    name: str
    email: str
    image: str
    backend_url: str
    record_secret: str
    labels: Mapping[str, str]
    submitters: tuple[SubjectPlan, ...] = ()


def driver_account(spec: EnvironmentSpec) -> tuple[str, str] | None:
    """Name and e-mail of the drivers' account, None where the environment has no drivers."""
    if spec.driver is None:
        return None
    name = short_name(spec.project, spec.name, "encamp-driver")
    return name, service_account_email(name, spec.project)


def plan_driver(
    spec: EnvironmentSpec, labels: Mapping[str, str], submitters: tuple[SubjectPlan, ...]
) -> DriverPlan | None:
    """Decide an environment's drivers, None where it asks for none."""
    account = driver_account(spec)
    if spec.driver is None or account is None:
        return None
    name, email = account
    return DriverPlan(
        name, email, spec.driver.image, spec.driver.backend_url, spec.driver.record_secret, labels, submitters
    )


def require_driver(plan: DriverPlan | None, environment: str) -> DriverPlan:
    """The environment's drivers.

    Raises:
        UsageError: it has none.
    """
    if plan is None:
        hint = "write a `driver` block into its stack config and bring it up, or leave --in-cluster out"
        raise UsageError("this environment runs no drivers in its cluster", where=environment, hint=hint)
    return plan


def driver_job(plan: DriverPlan, environment: str, job_id: str, name: str) -> dict[str, Any]:
    """The Kubernetes Job that drives one job.

    ``environment`` is the name of the environment's stack, ``name`` the job's short cloud name and that of the Job and
    its Secret.

    Raises:
        PlanError: the name is too long for one.
    """
    if len(name) > LONGEST_NAME:
        raise PlanError(f"{name!r} is no short name of a job", where=job_id)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": plan.name, "labels": {**plan.labels, _LABEL: name}},
        "spec": {
            "backoffLimit": _TRIES,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "driver", "operator": "In", "values": list(_FINAL_CODES)},
                    },
                ]
            },
            "template": {
                "metadata": {"labels": {**plan.labels, _LABEL: name}},
                "spec": _pod(plan, environment, job_id, name),
            },
        },
    }


def driver_secret(plan: DriverPlan, name: str, job: str, owner: str) -> dict[str, Any]:
    """The Secret with the job as JSON text: it may hold a signed URL.

    ``owner`` is the uid of the Kubernetes Job that it goes with.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": plan.name,
            "labels": {**plan.labels, _LABEL: name},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner}],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": {JOB_FILE: job},
    }


def _pod(plan: DriverPlan, environment: str, job_id: str, name: str) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": plan.name,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {"runAsNonRoot": True, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "driver",
                "image": plan.image,
                "command": [
                    "encamp", "drive", f"{JOB_FOLDER}/{JOB_FILE}", "--job-id", job_id, "--environment", environment,
                ],
                "env": [
                    {"name": "PULUMI_BACKEND_URL", "value": plan.backend_url},
                    {"name": "PULUMI_SKIP_UPDATE_CHECK", "value": "true"},
                ],
                "envFrom": [{"secretRef": {"name": plan.record_secret}}],
                "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "job", "mountPath": JOB_FOLDER, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "job", "secret": {"secretName": name}}],
    }  # fmt: skip
