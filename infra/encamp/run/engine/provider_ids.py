"""Ids by which the ``gcp`` provider reads resources whose create had no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp.kinds.environment import ENVIRONMENT_RESOURCES
from encamp.kinds.google import RESOURCES

if TYPE_CHECKING:
    from encamp.run.engine.stack_state import Unanswered

#: By type token: what costs money, and what stands in the way of making it again.
_IDS: Final = {kind.token: kind.import_id for kind in (*RESOURCES, *ENVIRONMENT_RESOURCES)}


def provider_id(create: Unanswered, project: str) -> str | None:
    """Return the id of what a create asked for; None if its type is not in the table or its inputs do not say it."""
    form = _IDS.get(create.type)
    named = {key: str(value).rpartition("/")[2] for key, value in create.inputs.items() if isinstance(value, str)}
    try:
        return form.format(**{"project": project, **named}) if form is not None else None
    except KeyError:
        return None
