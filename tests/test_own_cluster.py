"""A pod reaches its own cluster by the cluster's own address, and every other cluster as everybody does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from encamp.errors import EngineError
from encamp.own_cluster import own_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "projects/p/locations/us-central1/clusters/encamp"
POD = {"KUBERNETES_SERVICE_HOST": "10.30.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder that the kubelet mounts."""
    (tmp_path / "token").write_text("token-1\n")
    (tmp_path / "ca.crt").write_text("")
    return tmp_path


def test_a_pod_that_the_environment_made_has_the_address_of_the_cluster_itself(account: Path) -> None:
    found = own_kubeconfig(CLUSTER, POD | {"ENCAMP_OWN_CLUSTER": CLUSTER}, account)
    assert found is not None
    assert json.loads(found)["clusters"][0]["cluster"]["server"] == "https://10.30.0.1:443"


def test_a_pod_of_another_cluster_and_who_is_none_have_not(account: Path) -> None:
    assert own_kubeconfig(CLUSTER, POD, account) is None
    assert own_kubeconfig(CLUSTER, POD | {"ENCAMP_OWN_CLUSTER": f"{CLUSTER}-2"}, account) is None


def test_a_pod_without_a_token_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no account of a cluster"):
        own_kubeconfig(CLUSTER, POD | {"ENCAMP_OWN_CLUSTER": CLUSTER}, tmp_path)
