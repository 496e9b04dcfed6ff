"""The packages of a job as one list: those in buckets and those of this machine must not take each other's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.manifests.containers import Container
    from encamp.spec.job import TrainingJobSpec


def distinct_names(uris: Sequence[str]) -> None:
    """Refuse two packages of one file name, as the old client did: the second would hide the first.

    Raises:
        PlanError: it names both.
    """
    seen: dict[str, str] = {}
    for uri in uris:
        name = uri.rpartition("/")[2]
        if name in seen:
            raise PlanError(
                f"two packages are called {name}: {seen[name]} and {uri}",
                where="trainingInput.packageUris",
                hint="rename one of them, or leave one out",
            )
        seen[name] = uri


def idle_package_warnings(job: TrainingJobSpec, containers: Sequence[Container]) -> list[str]:
    """Return a warning for packages that nothing installs because no container has a set-up."""
    if any(container.interpreter is not None for container in containers):
        return []
    fields = {
        "packageUris": job.training_input.package_uris,
        "encamp.packagePath": job.encamp.package_path,
        "encamp.packages": job.encamp.packages,
        "encamp.requirements": job.encamp.requirements,
    }
    named = [field for field, value in fields.items() if value]
    if not named:
        return []
    return [f"not installed: {', '.join(named)}; a custom container without pythonModule runs as its image says"]
