"""The Kubernetes objects of a job, rendered from ``templates/`` and compared with the plan.

Text of the user's reaches a template as a value only and is written as JSON, which YAML reads back as the same text.
What was rendered is parsed again and must say what the plan means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from encamp.errors import PlanError
from encamp.plan.manifests.views import (
    account_view,
    claim_views,
    files_view,
    job_set_view,
    policy_view,
    request_views,
    study_view,
)
from encamp.plan.manifests.words import JOB_SET_VARIABLE
from encamp.plan.names import LARGEST_TRIAL, trial_name
from encamp.plan.rendering import render_text
from encamp.resources import resource
from encamp.text import is_plain

if TYPE_CHECKING:
    from encamp.plan.manifests.model import FilesView, JobSetView
    from encamp.plan.model import JobPlan

#: Linux takes no single variable or argument of more bytes (MAX_ARG_STRLEN), its name, ``=`` and end included.
LONGEST_STRING = 131_072
#: Bytes of one object that etcd stores, less what the API server adds.
LARGEST_OBJECT = 1_400_000
#: Bytes of one ConfigMap's data that Kubernetes accepts (MaxSecretSize).
LARGEST_CONFIG_MAP = 1_048_576
#: Variables at the head of every replica's that Kubernetes fills in: its index and the deadline.
_OWN_VARIABLES = 2

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes lists of numbers in one line and no aliases, as people write manifests."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _write_list(dumper: Any, data: list[Any]) -> Any:
    numbers = bool(data) and all(isinstance(element, int) for element in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=numbers)


_Dumper.add_representer(list, _write_list)
# Text that Kubernetes' reader of YAML takes for a number or a truth value, and ours does not, is written in quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?((\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|0[xobXOB][0-9a-fA-F_]+)$"),
    list("-+.0123456789"),
)


@dataclass(frozen=True)
class Manifests:
    """A job's objects as plain data, in the order in which they are created.

    Attributes:
        job_set: what runs; of a study what its trials are made from, which does not run itself.
        study: the object that a study's trials belong to, which holds that JobSet; None without a study.
        pod_templates: of the roles whose machines are queued for.
        provisioning_requests: what asks for those machines, in the same order.
        claim_templates: templates of what replicas claim of their machines.
    """

    service_account: dict[str, Any]
    config_map: dict[str, Any]
    network_policy: dict[str, Any]
    job_set: dict[str, Any]
    pod_templates: tuple[dict[str, Any], ...] = ()
    provisioning_requests: tuple[dict[str, Any], ...] = ()
    study: dict[str, Any] | None = None
    claim_templates: tuple[dict[str, Any], ...] = ()

    def __iter__(self) -> Any:
        before = (self.service_account, self.config_map, self.network_policy)
        last = self.job_set if self.study is None else self.study
        return iter((*before, *self.claim_templates, *self.pod_templates, *self.provisioning_requests, last))

    def to_yaml(self) -> str:
        """Return all objects as one YAML stream; where a character would steer a terminal, only ASCII is written."""
        text = self._yaml(allow_unicode=True)
        return text if is_plain(text) else self._yaml(allow_unicode=False)

    def _yaml(self, *, allow_unicode: bool) -> str:
        text: str = yaml.dump_all(self, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=1_000_000)
        return text


def render_manifests(plan: JobPlan) -> Manifests:
    """Return the objects of a job.

    Raises:
        PlanError: the job is too large for one JobSet, or for one variable of a process.
    """
    view, requests = job_set_view(plan), request_views(plan)
    _check_sizes(view, trial_name(plan.name, LARGEST_TRIAL))
    script = resource("templates", "bootstrap.py").read_text(encoding="utf-8")
    job_set = _render("job-set.yaml.j2", job=view)
    _compare(job_set, view)
    return Manifests(
        service_account=_render("service-account.yaml.j2", account=account_view(plan)),
        config_map=_render("config-map.yaml.j2", files=files_view(plan, script)),
        network_policy=_render("network-policy.yaml.j2", policy=policy_view(plan)),
        job_set=job_set,
        pod_templates=tuple(_render("pod-template.yaml.j2", request=each) for each in requests),
        provisioning_requests=tuple(_render("provisioning-request.yaml.j2", request=each) for each in requests),
        study=_study(plan, job_set),
        claim_templates=tuple(_render("resource-claim-template.yaml.j2", claim=each) for each in claim_views(plan)),
    )


def _study(plan: JobPlan, job_set: dict[str, Any]) -> dict[str, Any] | None:
    if plan.study is None:
        return None
    view = study_view(plan, plan.study, job_set)
    _check_study(view)
    found = _render("config-map.yaml.j2", files=view)
    if found["data"] != view.data:
        raise AssertionError(f"the template of {plan.name} changed its study: {found['data']}")
    return found


def _check_study(view: FilesView) -> None:
    size = sum(len(text.encode()) for text in view.data.values())
    if size > LARGEST_CONFIG_MAP:
        what = f"the study's object would hold {size} bytes; Kubernetes takes {LARGEST_CONFIG_MAP}"
        raise PlanError(what, where="trainingInput", hint="use fewer replicas, shorter arguments or fewer values")


def _render(template: str, **values: Any) -> dict[str, Any]:
    text = render_text(template, **values)
    data: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - the safe loader, in C where there is one
    return data


def _check_sizes(view: JobSetView, longest_name: str) -> None:
    """Refuse a JobSet that is too large, also when Kubernetes has put the name of a trial's JobSet into it."""
    total = 0
    reference = f"$({JOB_SET_VARIABLE})"
    for group in view.groups:
        words = [*(group.command or ()), *(group.args or ()), *(f"{each.name}={each.value}" for each in group.env)]
        sizes = [len(word.replace(reference, longest_name).encode()) for word in words]
        total += sum(sizes)
        if max(sizes, default=0) >= LONGEST_STRING:
            raise PlanError(
                f"a variable or argument of the {group.role} has {max(sizes)} bytes; Linux takes {LONGEST_STRING}",
                where="trainingInput",
                hint="use fewer replicas or shorter arguments",
            )
    if total > LARGEST_OBJECT:
        raise PlanError(f"the job needs {total} bytes of the cluster's memory; at most {LARGEST_OBJECT}")


def _buckets(container: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the mounts of a container that are buckets."""
    return [mount for mount in container["volumeMounts"] if mount["name"].startswith("bucket-")]


def _compare(rendered: dict[str, Any], view: JobSetView) -> None:
    """Check that the rendered JobSet equals the view; a difference is a bug of a template."""
    groups = rendered["spec"]["replicatedJobs"]
    for found, meant in zip(groups, view.groups, strict=True):
        job = found["template"]["spec"]
        pod = job["template"]["spec"]
        (container,) = pod["containers"]
        said = (
            (found["name"], job["completions"], job["parallelism"], pod["nodeSelector"], pod["tolerations"]),
            (pod["securityContext"], container["securityContext"], [each["mountPath"] for each in _buckets(container)]),
            job["template"]["metadata"].get("annotations", {}),
            (container["image"], container.get("command"), container.get("args"), container["resources"]["requests"]),
            [each.get("resourceClaimTemplateName") for each in pod.get("resourceClaims", [])],
            [(each["name"], each["value"]) for each in container["env"][_OWN_VARIABLES:]],
        )
        wanted = (
            (meant.role, meant.count, meant.count, meant.node_selector, meant.tolerations),
            (meant.pod_security, meant.container_security, [mount.path for mount in view.mounts]),
            meant.annotations,
            (meant.image, meant.command, meant.args, meant.requests),
            [meant.rdma.claim_template] if meant.rdma is not None else [],
            [(each.name, each.value) for each in meant.env],
        )
        if said != wanted:
            raise AssertionError(f"the template of {view.name} changed the plan of {meant.role}: {said} != {wanted}")
