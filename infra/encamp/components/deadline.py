"""The deadline label: written when a resource is made, and never a change afterwards.

A deadline counts from the moment of creation, so each run of the program would say another one. The engine is told
to keep what the resource was made with; a second preview is quiet, and the cloud's own listing tells until when.
"""

from __future__ import annotations

from encamp.plan.model import DEADLINE_LABEL


def kept_deadline(labels: str) -> list[str]:
    """``ignore_changes`` of a resource whose property path ``labels`` holds the deadline label."""
    return [f'{labels}["{DEADLINE_LABEL}"]']
