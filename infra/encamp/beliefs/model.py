"""A belief: one sentence about Google Cloud, where it comes from, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date


class Confidence(StrEnum):
    """The confidence in a belief, from the strongest to the weakest.

    Attributes:
        RECORDED: an answer of Google itself was seen.
        DOCUMENTED: Google's documentation says it.
        PROVIDER_SOURCE: the source of Google's or Pulumi's provider, or of another maintained client, relies on it.
        BELIEVED: nothing confirms it yet.
    """

    RECORDED = "recorded"
    DOCUMENTED = "documented"
    PROVIDER_SOURCE = "provider-source"
    BELIEVED = "believed"


@dataclass(frozen=True)
class Belief:
    """One rule about Google Cloud.

    Attributes:
        id: unique name in kebab case, such as ``gke-empty-node-locations-differ``.
        area: file of the table that holds it.
        says: the rule in one sentence.
        source: URL, or repository and path.
        date: day on which the source was read.
        sure: how it is known.
        probe: what a real project can be asked to confirm it, in one sentence; None if it cannot be asked.
    """

    id: str
    area: str
    says: str
    source: str
    date: date
    sure: Confidence
    probe: str | None = None
