"""What Google still lists of a run: things of its jobs, and the environment's own cluster where that was taken down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cloud.leftovers import resources
from encamp.errors import EncampError
from encamp.run.intent import Intent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from encamp.run.context import Context
    from encamp.spec.environment import EnvironmentSpec


def inventory(
    context: Context, spec: EnvironmentSpec, jobs: Collection[str]
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, str]]:
    """What is left by kind, and what could not be listed, with the reason."""
    del spec
    left: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    records = context.records()
    try:
        for job in jobs:
            record = records.record(job)
            intent = Intent.read(record.intent) if record is not None and record.intent else None
            if intent is None:
                continue
            try:
                for thing in resources(context.client, intent.place):
                    left.setdefault(thing.kind, []).append(thing.name)
            except EncampError as error:
                unknown[f"job {job}"] = error.what
    finally:
        records.close()
    return {kind: tuple(sorted(set(names))) for kind, names in left.items()}, unknown
