"""How a pod reaches the API server of its own cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.pod_kubeconfig import pod_kubeconfig
from encamp.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder that the kubelet mounts."""
    (tmp_path / "token").write_text("token-1\n")
    (tmp_path / "ca.crt").write_text("")
    return tmp_path


def test_it_leads_to_the_server_that_every_pod_is_told_of(account: Path) -> None:
    for host, shown in (("10.30.0.1", "10.30.0.1"), ("fd00::1", "[fd00::1]")):
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
        text = pod_kubeconfig(environ, account)
        assert "token-1" not in text
        assert json.loads(text)["clusters"][0]["cluster"] == {
            "server": f"https://{shown}:443",
            "certificate-authority": str(account / "ca.crt"),
        }


def test_elsewhere_there_is_none(account: Path) -> None:
    with pytest.raises(EngineError, match="no account of a cluster"):
        pod_kubeconfig({}, account)
    (account / "token").unlink()
    with pytest.raises(EngineError, match="no account of a cluster"):
        pod_kubeconfig({"KUBERNETES_SERVICE_HOST": "10.30.0.1", "KUBERNETES_SERVICE_PORT": "443"}, account)


def test_a_token_that_the_kubelet_renews_is_read_anew(kubernetes: Any, account: Path) -> None:
    file = account / "token"
    kubernetes.put("pods", "a")
    cluster = Cluster(kubernetes.kubeconfig({"tokenFile": str(file)}))
    try:
        for token in ("token-1", "token-2"):
            file.write_text(f"{token}\n")
            assert cluster.get("pods", "n", "a") is not None
            assert kubernetes.requests[-1].headers["Authorization"] == f"Bearer {token}"
        file.unlink()
        with pytest.raises(EngineError, match="cannot be read"):
            cluster.get("pods", "n", "a")
    finally:
        cluster.close()
