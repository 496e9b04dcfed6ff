"""Google's listing of a run's remains: resources of its jobs, its own bucket, and the cluster if it was taken down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cloud.leftovers import resources
from encamp.cloud.resources import Container
from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.plan.names import scratch_bucket, short_name
from encamp.run.store.intent import Intent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.acceptance.progress import Progress
    from encamp.run.history.context import Context
    from encamp.spec.environment import EnvironmentSpec


def probe_bucket(spec: EnvironmentSpec, run: str) -> str:
    """Return the name of the bucket that a run's questions are put to."""
    job_id = f"acceptance-{run}"
    return scratch_bucket(spec.project, spec.name, job_id, short_name(spec.project, spec.name, job_id))


def cluster_path(spec: EnvironmentSpec) -> str:
    """Return the full name of an environment's cluster."""
    return f"projects/{spec.project}/locations/{spec.region}/clusters/{spec.cluster}"


def inventory(
    context: Context, spec: EnvironmentSpec, progress: Progress, *, environment_gone: bool
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, str]]:
    """Return what is left by kind, and what could not be listed, with the reason."""
    left: dict[str, set[str]] = {}
    unknown: dict[str, str] = {}
    asked = {f"job {job}": _of_job(context, job) for job in progress.jobs}
    asked["the run's bucket"] = _bucket(context, probe_bucket(spec, progress.run))
    if environment_gone:
        asked["the environment"] = _environment(context, spec)
    for what, found in asked.items():
        try:
            for kind, name in found:
                left.setdefault(kind, set()).add(name)
        except EncampError as error:
            unknown[what] = error.what
    return {kind: tuple(sorted(names)) for kind, names in left.items()}, unknown


def _of_job(context: Context, job: str) -> Iterator[tuple[str, str]]:
    """Yield what Google lists of a job, without its results in the artifacts bucket."""
    records = context.records()
    try:
        record = records.record(job)
    finally:
        records.close()
    intent = Intent.read(record.intent) if record is not None and record.intent else None
    if intent is not None:
        for thing in resources(context.client, intent.place):
            yield thing.kind, thing.name


def _bucket(context: Context, bucket: str) -> Iterator[tuple[str, str]]:
    if Storage(context.client).bucket(bucket) is not None:
        yield "bucket", bucket


def _environment(context: Context, spec: EnvironmentSpec) -> Iterator[tuple[str, str]]:
    """Yield the parts of an environment that would be paid for."""
    path = cluster_path(spec)
    if Container(context.client).cluster(path) is not None:
        yield "cluster", path
    if "artifactsBucket" not in spec.adopt:
        yield from _bucket(context, spec.artifacts_bucket)
