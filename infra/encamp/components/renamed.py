"""Former names of what the engine's state knows: what is called otherwise now keeps its resources.

The engine knows a resource by its type token, its logical name and the components above it. A component that changes
one of them without a word here would be a new one, and everything in it destroyed and made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Renamed:
    """A resource that had another name before.

    Attributes:
        type: its type token now.
        was_type: its type token before, None where that stays.
        name: its logical name now, None where every resource of the type is meant.
        was_name: its logical name before, None where that stays.
    """

    type: str
    was_type: str | None = None
    name: str | None = None
    was_name: str | None = None


#: Every rename since the first release; an entry may go when no stack of before is left.
RENAMED: tuple[Renamed, ...] = ()


def keep_renamed(renamed: Sequence[Renamed] = RENAMED) -> None:
    """Let the engine find under their former names the resources that the program registers from now on."""

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        aliases = [_alias(one) for one in renamed if one.type == args.type_ and one.name in (None, args.name)]
        if not aliases:
            return None
        known = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(aliases=aliases))
        return pulumi.ResourceTransformationResult(args.props, known)

    if renamed:
        pulumi.runtime.register_stack_transformation(transform)


def _alias(one: Renamed) -> pulumi.Alias:
    kind = one.was_type or one.type
    return pulumi.Alias(type_=kind) if one.was_name is None else pulumi.Alias(name=one.was_name, type_=kind)
