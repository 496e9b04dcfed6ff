"""The deadline label: written when a resource is made, and never a change afterwards.

A deadline counts from the moment of creation, so each run of the program would say another one. The engine is told
to keep what the resource was made with; a second preview is quiet, and the cloud's own listing tells until when.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from encamp.plan.model import DEADLINE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Title of the condition of a binding that ends with the job's deadline.
UNTIL = "until-the-deadline"


def kept_deadline(labels: str) -> list[str]:
    """``ignore_changes`` of a resource whose property path ``labels`` holds the deadline label."""
    return [f'{labels}["{DEADLINE_LABEL}"]']


def until(deadline: str) -> str:
    """The IAM condition of what is given until the deadline, so that even a binding nobody takes away gives nothing.

    Source: cloud.google.com/iam/docs/configuring-temporary-access.
    """
    return f'request.time < timestamp("{datetime.fromtimestamp(int(deadline), UTC):%Y-%m-%dT%H:%M:%SZ}")'


def marks(labels: Mapping[str, str]) -> str:
    """Labels as ``key=value`` words, for what carries a description instead; at most 256 bytes, as IAM takes."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
