"""One trial of a study: its JobSet from the study's template, and its plan, which says the same.

A trial is the job itself under another name, with values of its own among its arguments and its number in what its
replicas are told. A JobSet is made by a few edits of the template's structure; no text is put together.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.plan.manifests.words import JOB_SET_VARIABLE, VALUES_MARK, escaped
from encamp.plan.model import DEADLINE_LABEL, TRIAL_LABEL
from encamp.plan.names import trial_name
from encamp.plan.study import PARENT_VARIABLE, TRIAL_VARIABLE, trial_arguments, trial_variables
from encamp.plan.tf_config import cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, ReplicaGroupPlan


def trial_job_set(
    template: Mapping[str, Any],
    number: int,
    arguments: Mapping[str, str],
    *,
    owner_name: str,
    owner_uid: str,
    seconds: int,
    deadline: str | None = None,
    parent: int | None = None,
) -> dict[str, Any]:
    """Return the JobSet of a trial.

    Args:
        template: as the study object has it.
        number: of the trial, from 1.
        arguments: text of each parameter's value, in the order of the job file.
        owner_name: of the study object.
        owner_uid: its uid; the trial goes with it.
        seconds: after how long the cluster ends the trial by itself.
        deadline: value of the job's deadline label, which the study object carries. Its replicas do not start after it.
        parent: number of the trial from whose checkpoint this one starts.
    """
    found = copy.deepcopy(dict(template))
    metadata, spec = found["metadata"], found["spec"]
    name = trial_name(metadata["name"], number)
    own = {TRIAL_LABEL: str(number), **({} if deadline is None else {DEADLINE_LABEL: deadline})}
    metadata["name"] = spec["network"]["subdomain"] = name
    metadata["labels"] = {**metadata["labels"], **own}
    metadata["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner_name, "uid": owner_uid, "blockOwnerDeletion": True}
    ]
    variables = {JOB_SET_VARIABLE: name, **trial_variables(number, parent)}
    words = [escaped(word) for word in trial_arguments(arguments)]
    for group in spec["replicatedJobs"]:
        job = group["template"]
        job["spec"]["activeDeadlineSeconds"] = max(1, seconds)
        for part in (job, job["spec"]["template"]):
            part["metadata"]["labels"] = {**part["metadata"]["labels"], **own}
        for container in job["spec"]["template"]["spec"]["containers"]:
            container["args"] = _with_values(container["args"], words)
            container["env"] = _with_variables(container["env"], variables)
    return found


def _with_values(args: list[str], words: list[str]) -> list[str]:
    at = args.index(VALUES_MARK)
    return [*args[:at], *words, *args[at + 1 :]]


def _with_variables(env: list[dict[str, Any]], variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the variables with those of the trial filled in, before all that refer to them.

    A parent is a further one.
    """
    found: list[dict[str, Any]] = []
    for each in env:
        found.append({**each, "value": variables[each["name"]]} if each["name"] in variables else each)
        if each["name"] == TRIAL_VARIABLE and PARENT_VARIABLE in variables:
            found.append({"name": PARENT_VARIABLE, "value": variables[PARENT_VARIABLE]})
    return found


def trial_plan(plan: JobPlan, number: int, arguments: Mapping[str, str], parent: int | None = None) -> JobPlan:
    """Return the plan of a trial: that of a job without a study. Its machines are still all of the study's.

    Args:
        plan: of a job with a study.
        number: of the trial, from 1.
        arguments: text of each parameter's value, in the order of the job file.
        parent: number of the trial from whose checkpoint this one starts.
    """
    name = trial_name(plan.name, number)
    words = trial_arguments(arguments)
    variables = trial_variables(number, parent)
    groups = tuple(_group(group, words, variables) for group in plan.groups)
    return replace(plan, name=name, groups=groups, cluster=cluster(name, groups), study=None, trial=number)


def _group(group: ReplicaGroupPlan, words: tuple[str, ...], variables: Mapping[str, str]) -> ReplicaGroupPlan:
    given, at = group.args or (), group.values_at
    return replace(group, args=(*given[:at], *words, *given[at:]), env={**group.env, **variables})
