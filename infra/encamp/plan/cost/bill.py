"""A job's own labels on billed resources, so that Google's billing export can be added up by them.

Machines that several jobs share carry no job's labels. There GKE's cost allocation adds up by the labels of pods
(belief: ``gke-cost-allocation-by-pod-labels``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A resource takes 64 (cloud.google.com/compute/docs/labeling-resources), some of them encamp's and GKE's.
MOST_LABELS = 50
#: Keys of encamp's own labels, and of Google's.
_RESERVED = ("encamp-", "goog")
#: A label of Kubernetes: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/.
_POD_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def bill_labels(labels: Mapping[str, str] | None) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the labels of a job file that its node pools and buckets get, and warnings about the others."""
    written = labels or {}
    reserved = sorted(key for key in written if key.startswith(_RESERVED))
    free = sorted(set(written) - set(reserved))
    warnings: list[str] = []
    if reserved:
        warnings.append(f"labels of Google's and encamp's own are not put on resources: {', '.join(reserved)}")
    if len(free) > MOST_LABELS:
        warnings.append(f"resources take {MOST_LABELS} labels of a job; left out: {', '.join(free[MOST_LABELS:])}")
    return {key: written[key] for key in free[:MOST_LABELS]}, tuple(warnings)


def pod_labels(labels: Mapping[str, str]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the labels that Kubernetes accepts too, for pods on shared machines, and a warning about the others."""
    fitting = {
        key: value
        for key, value in labels.items()
        if _POD_LABEL.fullmatch(key) and (not value or _POD_LABEL.fullmatch(value))
    }
    others = sorted(set(labels) - set(fitting))
    if not others:
        return fitting, ()
    what = "labels that Kubernetes does not take are not on the replicas, whose machines are shared"
    return fitting, (f"{what}: {', '.join(others)}",)
