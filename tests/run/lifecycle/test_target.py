"""How a cluster is reached when the environment's stack is gone and Google's listing is all there is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from encamp.errors import EngineError
from encamp.run.lifecycle.target import _kubeconfig

PATH = "projects/my-project/locations/us-central1/clusters/encamp"
LISTED = {"endpoint": "34.1.2.3", "masterAuth": {"clusterCaCertificate": "Q0E="}}


def server(cluster: dict[str, Any]) -> dict[str, str]:
    written: dict[str, Any] = json.loads(_kubeconfig(cluster, PATH))
    found: dict[str, str] = written["clusters"][0]["cluster"]
    return found


@pytest.mark.parametrize("lets_in", [True, False])
def test_a_cluster_is_reached_by_its_name_if_that_lets_anybody_in(lets_in: bool) -> None:
    name = {"endpoint": "gke-42.us-central1.gke.goog", "allowExternalTraffic": lets_in}
    cluster = LISTED | {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": name}}
    by_address = {"server": "https://34.1.2.3", "certificate-authority-data": "Q0E="}
    assert server(cluster) == ({"server": "https://gke-42.us-central1.gke.goog"} if lets_in else by_address)


def test_a_cluster_that_is_being_made_has_no_address_yet() -> None:
    with pytest.raises(EngineError, match="no address yet"):
        server({"name": "encamp"})
