"""A job's own labels on what is paid for, so that Google's billing export can be added up by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A resource takes 64 (cloud.google.com/compute/docs/labeling-resources), some of them encamp's and GKE's.
MOST_LABELS = 50
#: Keys of encamp's own labels, and of Google's.
_RESERVED = ("encamp-", "goog")


def bill_labels(labels: Mapping[str, str] | None) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The labels of a job file that its node pools and buckets get, and warnings about the others."""
    written = labels or {}
    reserved = sorted(key for key in written if key.startswith(_RESERVED))
    free = sorted(set(written) - set(reserved))
    warnings: list[str] = []
    if reserved:
        warnings.append(f"labels of Google's and encamp's own are not put on resources: {', '.join(reserved)}")
    if len(free) > MOST_LABELS:
        warnings.append(f"resources take {MOST_LABELS} labels of a job; left out: {', '.join(free[MOST_LABELS:])}")
    return {key: written[key] for key in free[:MOST_LABELS]}, tuple(warnings)
