from __future__ import annotations

import json
from typing import Any

from encamp.cloud.gke_kubeconfig import gke_kubeconfig


def test_the_kubeconfig_holds_no_secret_and_asks_the_plugin() -> None:
    written: dict[str, Any] = json.loads(gke_kubeconfig("encamp", "10.0.0.2", "Q0E="))
    assert written["clusters"][0]["cluster"] == {"server": "https://10.0.0.2", "certificate-authority-data": "Q0E="}
    (user,) = written["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"


def test_a_name_of_googles_needs_no_certificate_of_the_clusters() -> None:
    written: dict[str, Any] = json.loads(gke_kubeconfig("encamp", "gke-42.us-central1.gke.goog", None))
    assert written["clusters"][0]["cluster"] == {"server": "https://gke-42.us-central1.gke.goog"}
