"""Keys in the sandbox: who has to be let in before anything is under one, and what stays when it is destroyed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.cloud.desk import PROJECT

if TYPE_CHECKING:
    from tests.sandbox.cloud.desk import Answer, Desk

pytestmark = pytest.mark.slow

RINGS = f"cloudkms/v1/{PROJECT}/locations/us-central1/keyRings"
KEY = f"{PROJECT}/locations/us-central1/keyRings/lab/cryptoKeys/encamp"
USE = "roles/cloudkms.cryptoKeyEncrypterDecrypter"


def make_key(desk: Desk) -> None:
    desk.do("POST", RINGS, {}, query={"keyRingId": "lab"})
    desk.do("POST", f"{RINGS}/lab/cryptoKeys", {}, query={"cryptoKeyId": "encamp"})


def bucket(desk: Desk, name: str) -> Answer:
    body = {"name": name, "location": "us-central1", "encryption": {"defaultKmsKeyName": KEY}}
    return desk.ask("POST", "storage/v1/b", body)


def let_in(desk: Desk, *bindings: dict[str, Any]) -> None:
    desk.do("POST", f"cloudkms/v1/{KEY}:setIamPolicy", {"policy": {"bindings": list(bindings)}})


def agents_binding(desk: Desk) -> dict[str, Any]:
    agent = desk.do("GET", f"storage/v1/{PROJECT}/serviceAccount")["email_address"]
    return {"role": USE, "members": [f"serviceAccount:{agent}"]}


def test_a_bucket_is_under_a_key_once_storages_agent_may_use_it(desk: Desk) -> None:
    make_key(desk)
    answer = bucket(desk, "lab-results")
    assert (answer.status, answer.belief) == (403, "kms-agents-need-the-key")
    assert "Permission denied on Cloud KMS key" in answer.message
    assert "gs-project-accounts" in answer.message
    let_in(desk, agents_binding(desk))
    assert bucket(desk, "lab-results").status == 200
    let_in(desk)
    assert bucket(desk, "more-results").status == 403


def test_a_destroyed_key_is_of_no_use_and_its_name_is_used_up(desk: Desk) -> None:
    make_key(desk)
    let_in(desk, agents_binding(desk))
    assert desk.do("POST", f"cloudkms/v1/{KEY}/cryptoKeyVersions/1:destroy")["state"] == "DESTROY_SCHEDULED"
    answer = bucket(desk, "lab-results")
    assert answer.status == 403
    assert "its versions are destroyed" in answer.message
    for path in (f"cloudkms/v1/{KEY}", f"{RINGS}/lab"):
        assert desk.ask("DELETE", path).status == 404
    again = desk.refused("POST", RINGS, {}, query={"keyRingId": "lab"})
    assert (again.status, again.belief) == (409, "api-duplicate-is-409")


def test_a_key_is_on_until_it_is_destroyed(desk: Desk) -> None:
    assert desk.ask("GET", f"cloudkms/v1/{KEY}").status == 404
    make_key(desk)
    shown = desk.do("GET", f"cloudkms/v1/{KEY}")
    assert shown["primary"]["state"] == "ENABLED"
    assert (shown["purpose"], shown["destroyScheduledDuration"]) == ("ENCRYPT_DECRYPT", "2592000s")
    use = "cloudkms.cryptoKeyVersions.useToEncrypt"
    asked = desk.do("POST", f"cloudkms/v1/{KEY}:testIamPermissions", {"permissions": [use]})
    assert asked == {"permissions": [use]}
    desk.do("POST", f"cloudkms/v1/{KEY}/cryptoKeyVersions/1:destroy")
    assert desk.do("GET", f"cloudkms/v1/{KEY}")["primary"]["state"] == "DESTROY_SCHEDULED"


def test_a_mask_changes_what_it_names(desk: Desk) -> None:
    make_key(desk)
    body = {"rotationPeriod": "7776000s", "labels": {"team": "lab"}}
    desk.do("PATCH", f"cloudkms/v1/{KEY}", body, query={"updateMask": "rotationPeriod"})
    shown = desk.do("GET", f"cloudkms/v1/{KEY}")
    assert (shown["rotationPeriod"], shown.get("labels")) == ("7776000s", None)
    desk.do("PATCH", f"cloudkms/v1/{KEY}", {}, query={"updateMask": "rotation_period"})
    assert "rotationPeriod" not in desk.do("GET", f"cloudkms/v1/{KEY}")
    empty = desk.refused("PATCH", f"cloudkms/v1/{KEY}", body, query={"updateMask": ","})
    assert (empty.status, empty.belief) == (400, "api-updates-name-fields")
    fixed = desk.refused("PATCH", f"cloudkms/v1/{KEY}", {"purpose": "MAC"}, query={"updateMask": "purpose"})
    assert (fixed.status, fixed.belief) == (400, "api-fixed-fields")
