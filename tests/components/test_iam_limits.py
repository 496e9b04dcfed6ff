"""Every policy that an environment or a job of ours writes to stays within IAM's limits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from encamp.plan.access.iam_limits import PolicyBinding, policy_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.components.conftest import Resources

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ENVIRONMENTS = [f"environment/{file.stem}" for file in sorted((HERE / "environments").glob("*.yaml"))]
STACKS = sorted(file.name.split(".")[1] for file in (HERE.parents[1] / "stacks").glob("Pulumi.*.yaml"))
#: Environments that give nobody anything.
WITHOUT = {"acceptance", "sandbox", "environment/adopted-cluster", "environment/of-the-sandbox-with-queues"}
#: What says whose policy a member's binding stands in.
TARGETS = ("repository", "cryptoKeyId", "serviceAccountId", "bucket", "project")


@pytest.mark.parametrize("stack", [*ENVIRONMENTS, *STACKS, "job/basic-bare", "job/storage-own-bucket"])
def test_every_policy_stays_within_the_limits(registered: Callable[[str], Resources], stack: str) -> None:
    policies: dict[tuple[str, str], list[PolicyBinding]] = defaultdict(list)
    for key, inputs in registered(stack).items():
        token = key.partition(" ")[0]
        if "member" in inputs and "role" in inputs:
            # What the cloud names, a mock leaves out: such a binding is the only one of its account.
            target = next((str(inputs[name]) for name in TARGETS if name in inputs), key)
            condition = inputs.get("condition") or {}
            binding = PolicyBinding(inputs["role"], [inputs["member"]], condition.get("expression"))
            policies[token, target].append(binding)
    assert policies or stack in WITHOUT
    assert not [(at, problem) for at, bindings in policies.items() for problem in policy_problems(bindings)]
