"""Rule of queues: E16. The environment says which queues exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")


def check_queue(case: Case) -> None:
    """Check E16: queue and priority are names of the environment's."""
    for field in ("queue", "priority"):
        value: str | None = getattr(case.job.encamp, field)
        if value is not None and not _NAME.fullmatch(value):
            message = f"{value[:80]!r} must be a lowercase letter, then letters, digits and -, at most 40 characters"
            hint = "trainingInput.scheduling.priority takes numbers" if field == "priority" else None
            case.problem("E16", ("encamp", field), message, hint)
