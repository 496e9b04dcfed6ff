"""Who calls Google, as the files of application default credentials say it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.whoami import google_account

if TYPE_CHECKING:
    from pathlib import Path

PERSON = {"type": "authorized_user", "client_id": "c", "refresh_token": "r"}
URL = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/ci@lab.iam.gserviceaccount.com:generateAccessToken"


@pytest.mark.parametrize(
    ("credentials", "account"),
    [
        (
            {"type": "service_account", "client_email": "robot@lab.iam.gserviceaccount.com"},
            "robot@lab.iam.gserviceaccount.com",
        ),
        (
            {"type": "impersonated_service_account", "service_account_impersonation_url": URL},
            "ci@lab.iam.gserviceaccount.com",
        ),
        (
            {"type": "external_account", "service_account_impersonation_url": URL},
            "ci@lab.iam.gserviceaccount.com",
        ),
        ({"type": "external_account", "audience": "//iam.googleapis.com/x"}, None),
        (PERSON | {"account": "ana@example.com"}, "ana@example.com"),
        (PERSON | {"account": ""}, None),
        ("nonsense", None),
    ],
)
def test_a_file_of_credentials_says_whose_they_are(tmp_path: Path, credentials: Any, account: str | None) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps(credentials))
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file), "CLOUDSDK_CONFIG": str(tmp_path / "gcloud")}
    assert google_account(environ) == account


def test_a_person_is_who_gcloud_has_signed_in(tmp_path: Path) -> None:
    environ = {"CLOUDSDK_CONFIG": str(tmp_path)}
    assert google_account(environ) is None
    (tmp_path / "application_default_credentials.json").write_text(json.dumps(PERSON))
    assert google_account(environ) is None
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations" / "config_lab").write_text("[core]\naccount = ana@example.com\nproject = lab%\n")
    assert google_account(environ | {"CLOUDSDK_ACTIVE_CONFIG_NAME": "lab"}) == "ana@example.com"
    (tmp_path / "active_config").write_text("lab\n")
    assert google_account(environ) == "ana@example.com"


def test_a_file_that_is_none_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text("{")
    assert google_account({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}) is None
