"""The jobs API in the environment's own cluster: its identity and its Kubernetes objects.

It makes nothing of a job itself. It looks at a job before it takes it, as who may start jobs does, and hands it over to
the drivers' namespace; so its account has the drivers' rights at Google, and in the cluster those of handing over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.plan.egress import METADATA
from encamp.plan.environment.in_cluster import OWN_CLUSTER
from encamp.plan.manifests.pod_security import container_security, pod_security
from encamp.plan.names import environment_name, service_account_email

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.environment import EnvironmentSpec

#: Port that ``encamp serve`` listens on by default.
PORT = 8484
#: A pod that shuts down gets requests for some seconds more, until every node knows; then it answers those in flight.
_FAREWELL_SECONDS = 5
_GRACE_SECONDS = 65
#: The only folder that a pod writes to: logs on their way to who streams them. The record is a database.
_FOLDER = "/tmp/encamp"  # noqa: S108 - a volume of the pod's own
#: File in which a pod finds access; another ``pulumi up`` changes it without restarting the pod.
#: Source: kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap, "Mounted ConfigMaps are updated
#: automatically".
_TEAMS, _TEAMS_FILE = "/etc/encamp", "teams.json"
#: Source: kubernetes.io/docs/concepts/security/pod-security-standards
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_LABEL = {"app.kubernetes.io/name": "encamp-api"}
_RBAC = "rbac.authorization.k8s.io"
#: The engine would wait for pods, which wait for a Secret that somebody gives their new namespace.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True)
class ApiPlan:
    """The jobs API, decided.

    Attributes:
        name: of its service account at Google, and of everything of it in the cluster, its namespace among that.
        email: of that service account.
        record_secret: a Secret whose keys become the pods' variables.
        record_port: of the record's database.
        networks: addresses outside of the cluster that may reach it.
        teams: access as JSON: see ``api.live_access``.
        jobs: the namespace of the jobs, whose pods may not.
        drivers: the namespace that jobs are handed over to.
        cluster: full name of the cluster that it runs in, and the jobs.
    """

    name: str
    email: str
    image: str
    record_secret: str
    record_port: int
    replicas: int
    networks: tuple[str, ...]
    teams: str
    jobs: str
    drivers: str
    labels: Mapping[str, str]
    cluster: str


def api_account(spec: EnvironmentSpec) -> tuple[str, str] | None:
    """Name and e-mail of the service's account, None if the environment has no jobs API."""
    if spec.api is None:
        return None
    name = environment_name(spec.project, spec.name, "encamp-api")
    return name, service_account_email(name, spec.project)


def plan_api(spec: EnvironmentSpec, labels: Mapping[str, str], drivers: str) -> ApiPlan | None:
    """Decide an environment's jobs API, None if it asks for none; ``drivers`` is the drivers' namespace."""
    account = api_account(spec)
    if spec.api is None or account is None:
        return None
    name, email = account
    image = spec.api.image or (spec.driver.image if spec.driver is not None else "")
    return ApiPlan(
        name,
        email,
        image,
        spec.api.record_secret,
        spec.api.record_port,
        spec.api.replicas,
        tuple(spec.api.networks),
        _teams(spec),
        spec.namespace,
        drivers,
        {**labels, **_LABEL},
        spec.cluster_path,
    )


def _teams(spec: EnvironmentSpec) -> str:
    """Return access as JSON, which the service reads again when it changes."""
    access = spec.access.model_dump(mode="json", by_alias=True, exclude_none=True) if spec.access is not None else None
    act_as = list(spec.api.act_as) if spec.api is not None else []
    return json.dumps({"access": access, "actAs": act_as}, indent=2, sort_keys=True)


def api_objects(plan: ApiPlan, environment: str) -> tuple[dict[str, Any], ...]:
    """Return every object of it in the cluster, in the order of their making.

    ``environment`` is the name of its stack.
    """
    spread = (_disruptions(plan),) if plan.replicas > 1 else ()
    return (
        _named(plan, "v1", "Namespace", labels={**plan.labels, **_RESTRICTED}),
        _named(plan, "v1", "ServiceAccount", annotations={"iam.gke.io/gcp-service-account": plan.email})
        | {"automountServiceAccountToken": False},
        _named(plan, "v1", "ConfigMap") | {"data": {_TEAMS_FILE: plan.teams}},
        *_handing_over(plan),
        *_reading(plan),
        _network(plan),
        _service(plan),
        *spread,
        _deployment(plan, environment),
    )


def _named(plan: ApiPlan, group: str, kind: str, **more: Any) -> dict[str, Any]:
    place = {} if kind == "Namespace" else {"namespace": plan.name}
    metadata = {"name": plan.name, **place, "labels": dict(plan.labels), **more}
    return {"apiVersion": group, "kind": kind, "metadata": metadata}


def _rights(plan: ApiPlan, name: str, namespace: str, rules: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return a Role in another namespace, with its binding to the service."""
    group = f"{_RBAC}/v1"
    return (
        _named(plan, group, "Role", name=name, namespace=namespace) | {"rules": rules},
        _named(plan, group, "RoleBinding", name=name, namespace=namespace)
        | {
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": plan.name, "namespace": plan.name}],
        },
    )


def _handing_over(plan: ApiPlan) -> tuple[dict[str, Any], ...]:
    """Return RBAC rules for handing over jobs: create Jobs and Secrets, replace ended drivers, read no Secret."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete", "get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
    return _rights(plan, "encamp-api-submit", plan.drivers, rules)


def _reading(plan: ApiPlan) -> tuple[dict[str, Any], ...]:
    """Return RBAC rules for reading logs of jobs that have not ended, which only their pods have."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    return _rights(plan, "encamp-api-logs", plan.jobs, rules)


def _network(plan: ApiPlan) -> dict[str, Any]:
    """Return the network policy: ingress to the service, but not from jobs; egress to Google, cluster and record."""
    others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [plan.jobs]}
    ports = [{"protocol": "TCP", "port": port} for port in dict.fromkeys((443, plan.record_port))]
    return _named(plan, "networking.k8s.io/v1", "NetworkPolicy") | {
        "spec": {
            "podSelector": {"matchLabels": dict(_LABEL)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [
                        {"namespaceSelector": {"matchExpressions": [others]}},
                        *({"ipBlock": {"cidr": network}} for network in plan.networks),
                    ],
                    "ports": [{"protocol": "TCP", "port": PORT}],
                }
            ],
            "egress": [
                {"ports": ports},
                {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
                *(
                    {"to": [{"ipBlock": {"cidr": address}}], "ports": [{"protocol": "TCP", "port": port}]}
                    for address, port in METADATA
                ),
            ],
        }
    }


def _service(plan: ApiPlan) -> dict[str, Any]:
    return _named(plan, "v1", "Service", annotations=dict(_NOT_AWAITED)) | {
        "spec": {
            "type": "ClusterIP",
            "selector": dict(_LABEL),
            # A client that streams a job's logs stays with the same pod.
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        }
    }


def _disruptions(plan: ApiPlan) -> dict[str, Any]:
    """Return the disruption budget: nodes are drained one pod at a time, also where there is a single pod."""
    return _named(plan, "policy/v1", "PodDisruptionBudget") | {
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(_LABEL)}}
    }


def _deployment(plan: ApiPlan, environment: str) -> dict[str, Any]:
    return _named(plan, "apps/v1", "Deployment", annotations=dict(_NOT_AWAITED)) | {
        "spec": {
            "replicas": plan.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": dict(_LABEL)},
            # Servers of one record stand beside each other, so the new one comes before the old one goes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": dict(plan.labels)}, "spec": _pod(plan, environment)},
        }
    }


def _pod(plan: ApiPlan, environment: str) -> dict[str, Any]:
    words = ["encamp", "serve", "--environment", environment, "--in-cluster", "--host", "0.0.0.0"]  # noqa: S104
    variables = {OWN_CLUSTER: plan.cluster, "HOME": _FOLDER, "ENCAMP_STATE_DIR": f"{_FOLDER}/state", "TMPDIR": _FOLDER}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(_LABEL)},
    }
    return {
        "serviceAccountName": plan.name,
        # By this token it hands jobs over; at Google it has its account's.
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": dict(pod_security(non_root=True)),
        "topologySpreadConstraints": [spread],
        "containers": [
            {
                "name": "api",
                "image": plan.image,
                "command": [*words, "--port", str(PORT), "--audit-log", "-", "--teams-file", f"{_TEAMS}/{_TEAMS_FILE}"],
                "env": [{"name": name, "value": value} for name, value in sorted(variables.items())],
                "envFrom": [{"secretRef": {"name": plan.record_secret}}],
                "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
                "startupProbe": _probe("/healthz", 2, 60),
                "livenessProbe": _probe("/healthz", 10, 6),
                "readinessProbe": _probe("/readyz", 5, 2),
                "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_FAREWELL_SECONDS)]}}},
                "resources": {
                    "requests": {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "1Gi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": {**container_security(non_root=True), "readOnlyRootFilesystem": True},
                "volumeMounts": [
                    {"name": "own", "mountPath": _FOLDER},
                    {"name": "teams", "mountPath": _TEAMS, "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "own", "emptyDir": {"sizeLimit": "8Gi"}},
            # Mounted as a folder, so that the kubelet brings what changes.
            {"name": "teams", "configMap": {"name": plan.name}},
        ],
    }


def _probe(path: str, seconds: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
