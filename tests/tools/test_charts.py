"""What is kept of the charts is what the pinned modules and the values in ``tools/charts/`` make."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from encamp.plan.environment.charts import read_chart
from encamp_sandbox.tools import TOOLS
from encamp_sandbox.tools.catalog import HELM

REPOSITORY = Path(__file__).resolve().parents[2]
CHARTS = ("jobset", "kueue")


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_of_the_module_that_the_tool_is_built_from(name: str) -> None:
    tool, kept = TOOLS[name], read_chart(name)
    sums = (tool.folder / "go.sum").read_text()
    assert (kept["module"], kept["version"]) == (tool.module, tool.version)
    assert f"{tool.module} {tool.version} {kept['sum']}\n" in sums, "run: python tools/charts.py"
    values = (REPOSITORY / "tools" / "charts" / f"{name}.yaml").read_bytes()
    assert kept["values"] == hashlib.sha256(values).hexdigest(), "run: python tools/charts.py"
    assert kept["helm"] == HELM.version


@pytest.mark.parametrize("name", CHARTS)
def test_a_controller_is_its_release(name: str) -> None:
    kept = read_chart(name)
    (deployment,) = [item for item in kept["objects"] if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.k8s.io/{name}/{name}:{kept['version']}"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", CHARTS)
def test_what_would_change_by_itself_is_not_kept(name: str) -> None:
    for item in read_chart(name)["objects"]:
        assert "status" not in item
        assert "data" not in item or item["kind"] == "ConfigMap"
        for webhook in item.get("webhooks", ()):
            assert "caBundle" not in webhook["clientConfig"]


def test_a_kueue_that_is_down_stops_nothing_but_job_sets() -> None:
    groups = {
        group
        for item in read_chart("kueue")["objects"]
        for webhook in item.get("webhooks", ())
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
    }
    assert groups == {"kueue.x-k8s.io", "jobset.x-k8s.io"}


def test_only_job_sets_wait_in_queues() -> None:
    (config,) = [item for item in read_chart("kueue")["objects"] if item["kind"] == "ConfigMap"]
    text = config["data"]["controller_manager_config.yaml"]
    assert re.search(r"frameworks:\n\s+- jobset\.x-k8s\.io/jobset\n(?!\s+- )", text)


@pytest.mark.parametrize("name", CHARTS)
def test_objects_of_the_cluster_name_no_namespace_and_others_their_controllers(name: str) -> None:
    kept = read_chart(name)
    for item in kept["objects"]:
        of_cluster = item["kind"].startswith(("Cluster", "Custom", "Mutating", "Validating"))
        assert item["metadata"].get("namespace") == (None if of_cluster else kept["namespace"]), item["kind"]


@pytest.mark.parametrize("name", CHARTS)
def test_webhooks_listen_where_a_control_plane_may_reach_private_nodes(name: str) -> None:
    objects = read_chart(name)["objects"]
    (config,) = [item["data"]["controller_manager_config.yaml"] for item in objects if item["kind"] == "ConfigMap"]
    assert yaml.safe_load(config)["webhook"]["port"] == 10250
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (service,) = [item for item in objects if item["kind"] == "Service" and "webhook" in item["metadata"]["name"]]
    (target,) = [port["targetPort"] for port in service["spec"]["ports"] if port["port"] == 443]
    assert ports.get(target, target) == 10250
    assert 9443 not in ports.values()
