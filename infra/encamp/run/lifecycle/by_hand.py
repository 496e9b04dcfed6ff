"""Times and inputs of a job that plain ``pulumi up`` started, from the cluster and the engine.

Whoever takes such a job over has no record of it. Its JobSet, its pods and its stack's state still say when it began,
ran and ended, and what its replicas were told of the job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from encamp.redaction import redacted_data
from encamp.run.times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from encamp.run.engine.stack_state import StackState
    from encamp.run.logs.replicas import Replica

_JOB = "CLOUD_ML_JOB"


def began_at(state: StackState | None, job_set: Mapping[str, Any] | None) -> datetime | None:
    """Return when the first resource of a job was created, None if it is not known."""
    steps = [step.at for step in state.created()] if state is not None else []
    made = time_of((job_set or {}).get("metadata", {}).get("creationTimestamp"))
    return min([*steps, *([made] if made is not None else [])], default=None)


def running_at(replicas: Iterable[Replica]) -> datetime | None:
    """Return when the last replica was first started; None if a seen pod does not say."""
    first: dict[str, datetime] = {}
    for one in replicas:
        at = time_of(one.began)
        if at is None:
            return None
        first[one.name] = min(first.get(one.name, at), at)
    return max(first.values(), default=None)


def written_job(job_set: Mapping[str, Any] | None, job_id: str) -> dict[str, Any] | None:
    """Return the Job resource as its replicas were told of it, without secrets of a known form.

    None if nothing says it.
    """
    for group in (job_set or {}).get("spec", {}).get("replicatedJobs") or []:
        try:
            (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
            value = next(one["value"] for one in container["env"] if one["name"] == _JOB)
            # Kubernetes' expansion of variables doubles each dollar.
            told = json.loads(value.replace("$$", "$"))
        except (KeyError, StopIteration, TypeError, ValueError):
            continue
        if isinstance(told, dict):
            return {"jobId": job_id, "trainingInput": redacted_data(_camel_case(told))}
    return None


def _camel_case(data: Any) -> Any:
    """Return the same data with the keys of the Job resource."""
    if isinstance(data, dict):
        return {to_camel(str(key)): _camel_case(value) for key, value in data.items()}
    return [_camel_case(each) for each in data] if isinstance(data, list) else data
