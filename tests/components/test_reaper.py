"""The reaper that an environment installs in its own cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

_OWN = {"reaper", "reaper-pod", "reaper-grants"}


def test_an_environment_with_a_reaper_is_what_its_golden_says(
    declared: Callable[[str], dict[str, dict[str, Any]]], same_as_golden: Callable[[dict[str, Any], str], None]
) -> None:
    resources = declared("with-a-reaper")
    found = {key: inputs for key, inputs in resources.items() if key.partition(" ")[2] in _OWN}
    same_as_golden(found, "reaper")
    (pod,) = found["kubernetes:batch/v1:CronJob reaper"]["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert pod["command"] == ["encamp", "reap", "--remote", "--environment", "environment/with-a-reaper"]
    # Its own address of the cluster, and the same rights there as by its Google account.
    assert {one["name"]: one["value"] for one in pod["env"]}["ENCAMP_OWN_CLUSTER"] == (
        "projects/my-lab-project/locations/us-central1/clusters/encamp"
    )
    subjects = found["kubernetes:rbac.authorization.k8s.io/v1:RoleBinding reaper"]["subjects"]
    assert [subject["kind"] for subject in subjects] == ["ServiceAccount", "User"]
    # What may end jobs may make none: no right to create but that of sealed logs and of lines about them.
    granted = found["gcp:projects/iAMCustomRole:IAMCustomRole reaper"]["permissions"]
    made = [one for one in granted if one.endswith((".create", ".actAs"))]
    assert made == ["logging.logEntries.create", "storage.objects.create"]
    # It changes the project's policy in nothing but the roles that jobs get.
    assert "resourcemanager.projects.setIamPolicy" not in granted
    condition = found["gcp:projects/iAMMember:IAMMember reaper-grants"]["condition"]["expression"]
    assert condition == (
        'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", []).hasOnly('
        '["roles/logging.logWriter", "roles/monitoring.metricWriter"])'
    )
    verbs = {
        verb for rule in found["kubernetes:rbac.authorization.k8s.io/v1:Role reaper"]["rules"] for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch", "delete"}
