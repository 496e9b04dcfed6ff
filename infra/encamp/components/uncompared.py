"""Inputs that a preview without the stack's key does not compare: the engine keeps what its state has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def leave_uncompared(inputs: Sequence[Mapping[str, Any]]) -> None:
    """Let the engine ignore changes of inputs of the resources that the program registers from now on.

    Args:
        inputs: of each resource its ``type``, its logical ``name`` and the ``paths`` of inputs.
    """
    paths = {(str(one["type"]), str(one["name"])): [str(path) for path in one["paths"]] for one in inputs}

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        ignored = paths.get((args.type_, args.name))
        if ignored is None:
            return None
        options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(ignore_changes=ignored))
        return pulumi.ResourceTransformationResult(args.props, options)

    if paths:
        pulumi.runtime.register_stack_transformation(transform)
