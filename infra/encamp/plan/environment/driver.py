"""Drivers of jobs as Kubernetes Jobs in the environment's cluster: their identity, rights and objects.

A driver may do what AI Platform's ``ml.developer`` may, by the same table; whoever may start jobs may start a driver,
so that nobody gains a right by it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError, UsageError
from encamp.plan.environment.in_cluster import engine_resources, engine_variables, named_values
from encamp.plan.names import LONGEST_NAME, environment_name, service_account_email

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.access.model import SubjectPlan
    from encamp.spec.environment import EnvironmentSpec

#: The role of AI Platform whose rights a driver has.
ROLE = "ml.developer"
#: File in which a driver finds its job.
JOB_FOLDER, JOB_FILE = "/job", "job.json"
#: Names in a pod who handed its job over, as JSON of an ``Actor``: what they say of themselves.
STARTED_BY = "ENCAMP_STARTED_BY"
#: Their account, which the API server has compared with the request's; the jobs API says whom it speaks for.
STARTED_BY_ACCOUNT = "ENCAMP_STARTED_BY_ACCOUNT"
#: Exit codes of ``encamp drive`` that another try cannot change: failed, bad input, cancelled.
_FINAL_CODES = (1, 2, 5)
#: Number of restarts of a driver whose pod died or failed by the infrastructure.
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
        cluster: full name of the cluster that they run in, and their jobs.
        submitters: Kubernetes subjects that may hand jobs over to them.
        speaks_for_others: the jobs API's user name in the cluster, which hands jobs over for its callers; None without
            it.
    """

    name: str
    email: str
    image: str
    backend_url: str
    record_secret: str
    labels: Mapping[str, str]
    cluster: str
    submitters: tuple[SubjectPlan, ...] = ()
    speaks_for_others: str | None = None


def driver_account(spec: EnvironmentSpec) -> tuple[str, str] | None:
    """Name and e-mail of the drivers' account, None if the environment has no drivers."""
    if spec.driver is None:
        return None
    name = environment_name(spec.project, spec.name, "encamp-driver")
    return name, service_account_email(name, spec.project)


def plan_driver(
    spec: EnvironmentSpec,
    labels: Mapping[str, str],
    submitters: tuple[SubjectPlan, ...],
    speaks_for_others: str | None = None,
) -> DriverPlan | None:
    """Decide an environment's drivers, None if it asks for none."""
    account = driver_account(spec)
    if spec.driver is None or account is None:
        return None
    name, email = account
    driver = spec.driver
    return DriverPlan(
        name=name,
        email=email,
        image=driver.image,
        backend_url=driver.backend_url,
        record_secret=driver.record_secret,
        labels=labels,
        cluster=spec.cluster_path,
        submitters=submitters,
        speaks_for_others=speaks_for_others,
    )


def require_driver(plan: DriverPlan | None, environment: str) -> DriverPlan:
    """Return the environment's drivers.

    Raises:
        UsageError: it has none.
    """
    if plan is None:
        hint = "write a `driver` block into its stack config and bring it up, or leave --in-cluster out"
        raise UsageError("this environment runs no drivers in its cluster", where=environment, hint=hint)
    return plan


def driver_job(plan: DriverPlan, environment: str, job_id: str, name: str) -> dict[str, Any]:
    """Return the Kubernetes Job that drives one job.

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


@dataclass(frozen=True)
class Admission:
    """Something that has to be true of every Job in the drivers' namespace, in the Common Expression Language."""

    expression: str
    message: str


def admissions(plan: DriverPlan) -> tuple[Admission, ...]:
    """Return the rules by which a Job in the drivers' namespace is a driver, and nothing else.

    A pod there may read the drivers' Secrets; who hands jobs over must not choose what it runs, nor name another as the
    one who did. Kubernetes lets nobody change the variables of a Job that is there, so its controllers may update it.
    Source: kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy
    """
    pod = "object.spec.template.spec"
    values = engine_variables(plan.backend_url, plan.cluster)
    fixed = " && ".join(
        f"(e.name != {json.dumps(name)} || e.value == {json.dumps(value)})" for name, value in values.items()
    )
    names = json.dumps(sorted({*values, STARTED_BY, STARTED_BY_ACCOUNT}))
    speaks = f" || request.userInfo.username == {json.dumps(plan.speaks_for_others)}" if plan.speaks_for_others else ""
    file = json.dumps(JOB_FILE)
    absent = ("args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "workingDir")
    return (
        Admission(
            f"{pod}.serviceAccountName == {json.dumps(plan.name)} && {pod}.containers.size() == 1"
            f" && !has({pod}.initContainers) && !has({pod}.ephemeralContainers)",
            "a driver is one container with the drivers' account",
        ),
        Admission(
            f"{pod}.containers.all(c, c.image == {json.dumps(plan.image)} && has(c.command) && c.command.size() > 2"
            f' && c.command[0] == "encamp" && c.command[1] == "drive" && c.command[2] == "{JOB_FOLDER}/{JOB_FILE}"'
            f" && {' && '.join(f'!has(c.{each})' for each in absent)})",
            "a driver runs `encamp drive` of the environment's image, and nothing beside it",
        ),
        Admission(
            f"{pod}.containers.all(c, c.env.all(e, e.name in {names} && !has(e.valueFrom) && {fixed})"
            f" && c.envFrom.all(f, has(f.secretRef) && f.secretRef.name == {json.dumps(plan.record_secret)}))",
            "a driver's variables are the environment's",
        ),
        Admission(
            f"request.operation == 'UPDATE' || {pod}.containers.all(c, c.env.all(e,"
            f" e.name != {json.dumps(STARTED_BY_ACCOUNT)} || (has(e.value)"
            f" && e.value == request.userInfo.username){speaks}))",
            "a driver is told no account but that of who hands its job over",
        ),
        Admission(
            f"object.metadata.name != {json.dumps(plan.record_secret)}"
            f" && {pod}.volumes.all(v, has(v.secret) && v.secret.secretName == object.metadata.name"
            f" && has(v.secret.items) && v.secret.items.all(i, i.key == {file} && i.path == {file}))"
            f" && {pod}.containers.all(c, c.volumeMounts.all(m, m.mountPath == {json.dumps(JOB_FOLDER)}))",
            "a driver sees its own job, and no other Secret",
        ),
    )


def driver_secret(plan: DriverPlan, name: str, job: str, owner: str) -> dict[str, Any]:
    """Return the Secret with the job as JSON text: it may hold a signed URL.

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
        # By this token it reaches the API server; at Google it has its account's.
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {"runAsNonRoot": True, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "driver",
                "image": plan.image,
                "command": [
                    "encamp", "drive", f"{JOB_FOLDER}/{JOB_FILE}", "--job-id", job_id, "--environment", environment,
                ],
                "env": named_values(engine_variables(plan.backend_url, plan.cluster)),
                "envFrom": [{"secretRef": {"name": plan.record_secret}}],
                "resources": engine_resources(engines=1),
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "job", "mountPath": JOB_FOLDER, "readOnly": True}],
            }
        ],
        "volumes": [
            {"name": "job", "secret": {"secretName": name, "items": [{"key": JOB_FILE, "path": JOB_FILE}]}}
        ],
    }  # fmt: skip
