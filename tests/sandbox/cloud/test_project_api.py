"""What people ask of a project before they make anything of it, and its services."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.desk import PROJECT

if TYPE_CHECKING:
    from tests.sandbox.cloud.desk import Desk

pytestmark = pytest.mark.slow

SERVICES = f"serviceusage/v1/{PROJECT}/services"
QUOTAS = f"v1/{PROJECT}/locations/global/services"


def test_what_was_enabled_is_on_beside_what_always_is(desk: Desk) -> None:
    container = f"{SERVICES}/container.googleapis.com"
    assert desk.do("GET", container)["state"] == "DISABLED"
    operation = desk.do("POST", f"{container}:enable", {})
    assert operation["done"] is True
    assert operation["response"]["service"]["state"] == "ENABLED"
    assert desk.do("GET", f"serviceusage/v1/{operation['name']}") == operation
    names = {one["config"]["name"] for one in desk.do("GET", SERVICES)["services"]}
    assert names > {"container.googleapis.com", "serviceusage.googleapis.com"}
    desk.do("POST", f"{container}:disable", {})
    assert desk.do("GET", container)["state"] == "DISABLED"
    assert desk.do("GET", f"cloudbilling/v1/{PROJECT}/billingInfo")["billingEnabled"] is True


def test_several_services_are_enabled_at_once(desk: Desk) -> None:
    wanted = ["container.googleapis.com", "compute.googleapis.com"]
    desk.do("POST", f"{SERVICES}:batchEnable", {"serviceIds": wanted})
    assert [desk.do("GET", f"{SERVICES}/{one}")["state"] for one in wanted] == ["ENABLED", "ENABLED"]
    many = [f"s{number}.googleapis.com" for number in range(21)]
    assert desk.refused("POST", f"{SERVICES}:batchEnable", {"serviceIds": many}).status == 400
    odd = desk.refused("POST", f"{SERVICES}:batchEnable", {"serviceIds": ["container"]})
    assert (odd.status, odd.belief) == (400, "services-have-names")


def test_a_service_has_an_agent_once_it_is_enabled(desk: Desk) -> None:
    identity = f"serviceusage/v1beta1/{PROJECT}/services/tpu.googleapis.com:generateServiceIdentity"
    assert "is not enabled" in desk.refused("POST", identity, {}).message
    desk.do("POST", f"{SERVICES}/tpu.googleapis.com:enable", {})
    email = desk.do("POST", identity, {})["response"]["email"]
    assert email == f"service-{desk.cloud.number}@gcp-sa-tpu.iam.gserviceaccount.com"
    assert desk.do("POST", identity, {})["response"]["email"] == email


def test_quotas_are_served_as_the_cloud_quotas_api_does(desk: Desk) -> None:
    quota = "GPUS-PER-GPU-FAMILY-per-project-region"
    path = f"{QUOTAS}/compute.googleapis.com/quotaInfos/{quota}"
    answer = desk.ask("GET", path, host="cloudquotas.googleapis.com")
    assert (answer.status, answer.body["quotaId"]) == (200, quota)
    assert int(answer.body["dimensionsInfos"][0]["details"]["value"]) > 0
    [accounts] = desk.do("GET", f"cloudquotas/{QUOTAS}/iam.googleapis.com/quotaInfos")["quotaInfos"]
    assert accounts["metric"] == "iam.googleapis.com/quota/service-account-count"
    assert accounts["dimensionsInfos"][0]["details"]["value"] == "100"


def test_the_project_is_shown_by_both_versions(desk: Desk) -> None:
    old, new = (desk.do("GET", f"cloudresourcemanager/{version}/{PROJECT}") for version in ("v1", "v3"))
    assert (old["projectId"], old["projectNumber"], old["lifecycleState"]) == (
        "sandbox-encamp",
        desk.cloud.number,
        "ACTIVE",
    )
    assert (new["name"], new["state"]) == (f"projects/{desk.cloud.number}", "ACTIVE")
    assert desk.do("GET", f"cloudresourcemanager/v1/projects/{desk.cloud.number}") == old


def test_a_service_account_changes_by_mask_and_is_switched_off(desk: Desk) -> None:
    accounts = f"iam/v1/{PROJECT}/serviceAccounts"
    made = desk.do("POST", accounts, {"accountId": "trainer-1", "serviceAccount": {"displayName": "Trainer"}})
    one = f"{accounts}/{made['email']}"
    patch = {"serviceAccount": {"description": "of jobs", "displayName": "other"}, "updateMask": "description"}
    desk.do("PATCH", one, patch)
    desk.do("POST", f"{one}:disable", {})
    shown = desk.do("GET", one)
    assert (shown["displayName"], shown["description"], shown["disabled"]) == ("Trainer", "of jobs", True)
    desk.do("POST", f"{one}:enable", {})
    assert "disabled" not in desk.do("GET", f"iam/v1/projects/-/serviceAccounts/{made['uniqueId']}")


def test_a_deleted_role_keeps_its_id_and_comes_back(desk: Desk) -> None:
    roles = f"iam/v1/{PROJECT}/roles"
    body = {"roleId": "viewer", "role": {"title": "v", "includedPermissions": ["container.clusters.get"]}}
    etag = desk.do("POST", roles, body)["etag"]
    stale = desk.refused("PATCH", f"{roles}/viewer", {"title": "w", "etag": "old"}, query={"updateMask": "title"})
    assert (stale.status, stale.belief) == (409, "api-stale-etag-is-409")
    desk.do("PATCH", f"{roles}/viewer", {"title": "w", "etag": etag}, query={"updateMask": "title"})
    desk.do("DELETE", f"{roles}/viewer")
    assert desk.do("GET", f"{roles}/viewer")["deleted"] is True
    assert desk.refused("POST", roles, body).status == 409
    assert "deleted" not in desk.do("POST", f"{roles}/viewer:undelete", {})


def test_entries_that_an_exclusion_matches_are_not_taken_in(desk: Desk) -> None:
    jobs = 'resource.type="k8s_container" AND resource.labels.namespace_name="jobs"'
    exclusions = f"logging/v2/{PROJECT}/exclusions"
    desk.do("POST", exclusions, {"name": "jobs", "filter": jobs})

    def written(namespace: str) -> list[str]:
        resource = {"type": "k8s_container", "labels": {"namespace_name": namespace}}
        entry = {"logName": f"{PROJECT}/logs/stdout", "resource": resource}
        desk.do("POST", "logging/v2/entries:write", {"entries": [entry]})
        found = desk.do("POST", "logging/v2/entries:list", {"resourceNames": [PROJECT]})
        return [one["resource"]["labels"]["namespace_name"] for one in found.get("entries", ())]

    assert written("jobs") == []
    assert written("drivers") == ["drivers"]
    desk.do("PATCH", f"{exclusions}/jobs", {"disabled": True}, query={"updateMask": "disabled"})
    assert written("jobs") == ["drivers", "jobs"]
