"""Teams' roles, audit logs and the machines' account, as an environment declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.components.conftest import Resources

pytestmark = pytest.mark.slow

STACK = "with-access"


@pytest.fixture
def access(declared: Callable[[str], Resources]) -> Resources:
    every = declared(STACK)
    plain = declared("with-a-reaper")
    return {key: inputs for key, inputs in every.items() if key not in plain}


def test_what_teams_get_is_what_the_golden_says(
    access: Resources, same_as_golden: Callable[[Resources, str], None]
) -> None:
    same_as_golden(access, "access")


def test_nobody_gets_a_predefined_role_and_no_policy_is_replaced(access: Resources) -> None:
    """Bindings are added one by one; whatever else stands in a policy stays."""
    people = {"group:vision@example.com", "user:eve@example.com"}
    given = [inputs for key, inputs in access.items() if inputs.get("member") in people]
    assert given
    assert all(inputs["role"].startswith("projects/my-lab-project/roles/encamp_lab_ml_") for inputs in given)
    assert not [key for key in access if "iAMPolicy" in key or "iAMBinding" in key]


def test_groups_are_known_to_the_cluster(declared: Callable[[str], Resources]) -> None:
    (cluster,) = [inputs for key, inputs in declared(STACK).items() if key.startswith("gcp:container/cluster:")]
    assert cluster["authenticatorGroupsConfig"] == {"securityGroup": "gke-security-groups@example.com"}
    (plain,) = [inputs for key, inputs in declared("with-a-reaper").items() if key.startswith("gcp:container/cluster:")]
    assert "authenticatorGroupsConfig" not in plain


def test_exported_audit_logs_cannot_be_deleted_before_their_term(access: Resources) -> None:
    bucket = access["gcp:storage/bucket:Bucket audit"]
    assert bucket["retentionPolicy"] == {"retentionPeriod": str(30 * 86_400)}
    assert bucket["forceDestroy"] is False
    writer = access["gcp:storage/bucketIAMMember:BucketIAMMember audit"]
    assert writer["role"] == "roles/storage.objectCreator"
