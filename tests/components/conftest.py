"""Runs a program of ours against Pulumi's own mocks and records what it registers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.runtime import stack

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Recorder(pulumi.runtime.Mocks):
    """Answers every registration with the inputs and an id, as a cloud without computed fields would."""

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.resources[f"{args.typ} {args.name}"] = dict(args.inputs)
        return f"{args.name}-id", {**args.inputs, **self.answers.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        self.calls.append((args.token, dict(args.args)))
        return self.answers.get(args.token, {}), []


def record(declare: Callable[[], None], recorder: Recorder) -> Recorder:
    """Run ``declare`` as a stack's program and wait until all it registered is there."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        pulumi.runtime.set_mocks(recorder, project="encamp", stack="test", preview=False)
        loop.run_until_complete(stack.run_pulumi_func(declare))
    finally:
        loop.close()
        asyncio.set_event_loop(None)
    return recorder
