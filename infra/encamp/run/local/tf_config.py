"""The local cluster of the old client's flags, and each replica's task in it. Pure.

Its TF_CONFIG differs from the cloud's as the old client's did: ``job`` is an object of module and arguments, a single
process has an empty cluster, and there are no variables but TF_CONFIG. The old client also wrote ``"ps": []`` for a
role without replicas; here such a role is left out, as on the cloud.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from encamp.plan.names import log_name
from encamp.run.local.model import LocalReplica
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


#: How many replicas of each role the old client started beside the primary, in the order that it gave them ports.
DEFAULT_COUNTS: Mapping[Role, int] = {Role.PARAMETER_SERVER: 2, Role.WORKER: 2, Role.EVALUATOR: 0}


def ports_needed(counts: Mapping[Role, int]) -> int:
    """Return the number of replicas in the cluster, the primary included."""
    return 1 + sum(counts[role] for role in DEFAULT_COUNTS if role.is_in_cluster)


@dataclass(frozen=True)
class Host:
    """The properties of this machine that all replicas share.

    Attributes:
        program: the Python that runs the module.
        cwd: where replicas start.
        env: environment that theirs begin with.
    """

    program: Path
    cwd: Path
    env: Mapping[str, str]


def flag_replicas(
    module: str,
    args: Sequence[str],
    host: Host,
    *,
    counts: Mapping[Role, int] | None,
    primary: str,
    ports: Sequence[int],
) -> tuple[LocalReplica, ...]:
    """Return the replicas that the old client's flags describe, the primary first.

    Args:
        module: what each runs.
        args: arguments of the module, ``--job-dir`` included.
        host: what they have of this machine.
        counts: replicas of each role beside the primary; None for a single process.
        primary: what TF_CONFIG calls the primary, ``chief`` or ``master``.
        ports: ``ports_needed(counts)`` of them: the primary's, then those of parameter servers, then of workers.
    """
    job = {"job_name": module, "args": list(args)}
    if counts is None:
        config: dict[str, Any] = {"job": job, "task": {}, "cluster": {}, "environment": "cloud"}
        return (_replica(host, (module, *args), Role.MASTER, 0, config),)
    roles = {Role.MASTER: 1, **{role: counts[role] for role in DEFAULT_COUNTS}}
    names = {role: primary if role is Role.MASTER else role.value for role in roles}
    hosts = iter([f"localhost:{port}" for port in ports])
    members = {names[role]: list(islice(hosts, count)) for role, count in roles.items() if role.is_in_cluster}
    # A role without replicas ends TensorFlow's MultiWorkerMirroredStrategy by SIGSEGV.
    cluster = {task: addresses for task, addresses in members.items() if addresses}
    found: list[LocalReplica] = []
    for role, count in roles.items():
        for index in range(count):
            task = {"type": names[role], "index": index}
            config = {"job": job, "task": task, "cluster": cluster, "environment": "cloud"}
            found.append(_replica(host, (module, *args), role, index, config))
    return tuple(found)


def _replica(host: Host, run: Sequence[str], role: Role, index: int, config: Mapping[str, Any]) -> LocalReplica:
    env = {"PYTHONUNBUFFERED": "1", **host.env, "TF_CONFIG": json.dumps(config)}
    return LocalReplica(log_name(role, index), role, index, (str(host.program), "-m", *run), env, host.cwd)
