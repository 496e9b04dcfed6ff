"""Jobs that the environment's own cluster drives: how they are handed over, and how a driver there goes on.

A pod may go at any time, with its node or for a newer image; the Kubernetes Job begins another. Whichever pod comes
first begins the job, and every later one takes it over from the record.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError, EngineError, UsageError
from encamp.plan.environment.driver import STARTED_BY, STARTED_BY_ACCOUNT, driver_job, driver_secret
from encamp.run.lifecycle.finding import Verdict, worst
from encamp.run.lifecycle.reap import ReapOptions, reap
from encamp.run.store.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.cloud.kubernetes import Cluster
    from encamp.plan.environment.driver import DriverPlan
    from encamp.plan.model import JobPlan
    from encamp.run.history.context import Context
    from encamp.run.store.records import Records

#: Seconds of one wait for a lease that a dead pod left behind.
_PAUSE_SECONDS = 10.0


def hand_over(
    cluster: Cluster,
    driver: DriverPlan,
    plan: JobPlan,
    job: Mapping[str, Any],
    *,
    environment: str,
    started_by: Mapping[str, str],
) -> None:
    """Make the Kubernetes Job that drives a job, and the Secret with ``job``, the Job resource as data.

    ``environment`` is the name of the environment's stack, ``started_by`` who hands the job over. A hand-over that came
    to half is completed.

    Raises:
        UsageError: the job needs packages of this machine, or was handed over before.
        EngineError: the cluster refuses; nothing is left of the attempt.
    """
    if plan.storage.packages:
        hint = "upload them, and name them in packageUris; or leave --in-cluster out"
        raise UsageError("a driver in the cluster has no packages of this machine", where=plan.job_id, hint=hint)
    manifest = driver_job(driver, environment, plan.job_id, plan.name)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    said = {key: value for key, value in started_by.items() if key != "account"}
    container["env"].append({"name": STARTED_BY, "value": json.dumps(said, sort_keys=True)})
    if "account" in started_by:
        container["env"].append({"name": STARTED_BY_ACCOUNT, "value": started_by["account"]})
    made = cluster.create("jobs", driver.name, manifest)
    stands = made or cluster.get("jobs", driver.name, plan.name)
    if stands is None:
        raise EngineError("the cluster does not keep its driver", where=plan.job_id, hint="submit it again")
    try:
        secret = driver_secret(driver, plan.name, json.dumps(job), stands["metadata"]["uid"])
        whole = cluster.create("secrets", driver.name, secret) is not None
    except EncampError:
        if made is not None:
            cluster.delete("jobs", driver.name, plan.name)
        raise
    if not whole:
        hint = "`encamp attach` follows it; or choose another id"
        raise UsageError("this job was handed over before", where=plan.job_id, hint=hint)


def handed_over_by(environ: Mapping[str, str]) -> Actor | None:
    """Return who handed this driver's job over, None if unknown; the API server has checked their account.

    Raises:
        UsageError: the variable was not written by a hand-over.
    """
    told = environ.get(STARTED_BY)
    if not told:
        return None
    try:
        return Actor.from_json({**json.loads(told), "account": environ.get(STARTED_BY_ACCOUNT)})
    except (ValueError, TypeError) as error:
        raise UsageError("it names nobody", where=STARTED_BY) from error


def go_on(
    context: Context,
    records: Records,
    environment: str,
    job_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take a job over that a driver before this one began, and bring it to its end.

    Raises:
        EngineError: it could not be brought to its end, or this process is told to leave it.
    """
    while True:
        findings = reap(context, environment, ReapOptions(job=job_id, wait=True))
        record = records.record(job_id)
        if record is not None and record.torn_down:
            return
        if error := worst(findings):
            raise error
        if records.holder_of(job_id) is None and all(one.verdict is Verdict.HELD for one in findings):
            why = findings[-1].why if findings else "nothing of it is known"
            raise EngineError(f"the job continues without this driver: {why}", where=job_id)
        sleep(_PAUSE_SECONDS)
