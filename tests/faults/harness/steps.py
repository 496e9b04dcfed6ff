"""Steps of a run, noted from one that nothing disturbs: whatever is asked of a cloud and names the job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Hashes differ from job to job (``encamp.plan.names``), and with what a package holds.
_HASH = re.compile(r"(?<=-)[a-hjkmnp-z1-9]{16}(?![a-z0-9])|[0-9a-f]{8,}")
_JOB = "{job}"
#: How types of the engine's kubernetes provider begin, and user agents of its gcp providers, ours and the official one.
_KUBERNETES = "kubernetes:"
_PROVIDERS = re.compile(r"encamp-gcp-provider|Terraform|Pulumi")


@dataclass(frozen=True, order=True)
class Step:
    """Something that a run asks of a cloud: type, operation, and a pattern of names with ``{job}`` for the job.

    Attributes:
        by_engine: whether only the engine's providers ask, and neither the driver nor a replica.
    """

    operation: str
    type: str
    name: str
    by_engine: bool = False

    def __str__(self) -> str:
        return f"{self.operation} {self.type} {self.name}"

    @property
    def of_google(self) -> bool:
        """Whether the engine asks it of a Google API."""
        return self.by_engine and not self.type.startswith(_KUBERNETES)

    @property
    def brings_up(self) -> bool:
        """Whether a job that is brought up asks for it: content and rights follow what they belong to as updates."""
        return self.operation in ("create", "update")

    def fault(self, job: str, kind: str, count: int = 1) -> dict[str, Any]:
        """The fault that strikes this step of a job."""
        name = self.name.replace(_JOB, job)
        return {"type": self.type, "operation": self.operation, "name": name, "kind": kind, "count": count}


def noted_steps(struck: Iterable[dict[str, Any]], job: str) -> list[Step]:
    """The steps of a noted run of a job, each once, in an order that does not depend on who came first.

    A job's id is lowercase letters and digits, so that every name of the job holds it as it is.
    """
    by_engine: dict[tuple[str, str, str], bool] = {}
    for one in struck:
        if job in one["name"] and not one["type"].startswith("logging:"):
            asked = one["operation"], one["type"], _pattern(one["name"], job)
            by_engine[asked] = by_engine.get(asked, True) and _is_engine(one)
    return sorted(Step(*asked, by_engine=alone) for asked, alone in by_engine.items())


def _is_engine(struck: dict[str, Any]) -> bool:
    return struck["type"].startswith(_KUBERNETES) or bool(_PROVIDERS.search(struck["agent"]))


def _pattern(name: str, job: str) -> str:
    plain = _HASH.sub("*", name.replace(job, _JOB))
    return "*".join(escape(part) for part in plain.split("*"))
