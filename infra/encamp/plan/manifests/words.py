"""Arguments and variables of a replica's process, as Kubernetes must see them.

Kubernetes expands ``$(NAME)`` in both. Text that somebody wrote is escaped, so that it arrives as it is; references
stand only where nobody's own text is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from encamp.plan.machines.rdma import plugin_folder
from encamp.plan.manifests.containers import compact_json
from encamp.plan.manifests.model import Variable
from encamp.plan.manifests.pod_security import LOCKED_MEMORY_BYTES, home_variables
from encamp.plan.study import TRIAL_VARIABLE
from encamp.plan.tf_config import cluster, cluster_spec, tf_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.model import JobPlan, ReplicaGroupPlan

RUN_MOUNT = "/encamp-run"
INDEX_VARIABLE = "ENCAMP_REPLICA_INDEX"
#: Name of the JobSet that a trial's replica is of, which its cluster's hosts have.
JOB_SET_VARIABLE = "ENCAMP_JOB_SET"
#: Tells the set-up how much memory the trainer may lock, in bytes.
LOCKED_MEMORY_VARIABLE = "ENCAMP_LOCKED_MEMORY"
#: Tells the set-up where NCCL's plugin is.
NCCL_PLUGIN_VARIABLE = "ENCAMP_NCCL_PLUGIN"
#: Stands among a study's arguments for the values of a trial. Nobody else's word is this: their ``$`` are doubled.
VALUES_MARK = "$(ENCAMP_TRIAL_VALUES)"

#: Stands for the index while JSON is written; replaced by Kubernetes' reference without quotes around it.
_INDEX_MARK = "\x01index\x01"


def escaped(text: str) -> str:
    """Return text that Kubernetes' expansion of ``$(NAME)`` turns back into itself: every ``$`` doubled."""
    return text.replace("$", "$$")


def escaped_words(words: Sequence[str] | None) -> list[str] | None:
    """Return words of a process, each as Kubernetes must see it."""
    return None if words is None else [escaped(word) for word in words]


def arguments(plan: JobPlan, group: ReplicaGroupPlan) -> list[str] | None:
    """Return the arguments of a group, in a study with a mark where a trial's values come."""
    if plan.study is None:
        return escaped_words(group.args)
    words = [escaped(word) for word in group.args or ()]
    return [*words[: group.values_at], VALUES_MARK, *words[group.values_at :]]


def variables(plan: JobPlan, group: ReplicaGroupPlan) -> list[Variable]:
    """Return the variables of a group, TF_CONFIG last, with references that Kubernetes resolves.

    They refer to the index, and in a study to the trial and its JobSet, whose variables a trial fills in.
    """
    own = dict(home_variables(RUN_MOUNT)) if group.non_root else {}
    if group.locked_memory and group.interpreter is not None:
        own[LOCKED_MEMORY_VARIABLE] = str(LOCKED_MEMORY_BYTES)
    if group.rdma_nics and group.interpreter is not None:
        own[NCCL_PLUGIN_VARIABLE] = plugin_folder()
    trial: dict[str, str] = {}
    if plan.study is not None:
        trial = {JOB_SET_VARIABLE: plan.name, TRIAL_VARIABLE: ""}
        plan = replace(plan, cluster=cluster(f"$({JOB_SET_VARIABLE})", plan.groups))
    found = [Variable(name, escaped(value)) for name, value in sorted({**own, **group.env, **trial}.items())]
    if group.custom_container:
        found.append(Variable("CLUSTER_SPEC", _referring(plan, cluster_spec(plan, group, _INDEX_MARK))))
    return [*found, Variable("TF_CONFIG", _referring(plan, tf_config(plan, group, _INDEX_MARK)))]


def _referring(plan: JobPlan, data: Mapping[str, Any]) -> str:
    """Return the cluster description as JSON with references for cluster and task, except in a user's own text."""
    task = {**data["task"], **({"trial": f"$({TRIAL_VARIABLE})"} if plan.study is not None else {})}
    index = compact_json(_INDEX_MARK)
    parts = {key: escaped(compact_json(value)) for key, value in data.items()} | {
        "cluster": compact_json(data["cluster"]),
        "task": compact_json(task).replace(index, f"$({INDEX_VARIABLE})"),
    }
    return "{" + ",".join(f"{compact_json(key)}:{parts[key]}" for key in sorted(parts)) + "}"
