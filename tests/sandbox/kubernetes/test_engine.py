"""The provider under the real engine, with the SDK's own resources."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.provider import ProviderServer

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.sandbox

PROGRAM = """
import pulumi, pulumi_kubernetes as k8s
config = pulumi.Config()
cluster = k8s.Provider("cluster", kubeconfig=config.require("kubeconfig"), delete_unreachable=True)
options = pulumi.ResourceOptions(provider=cluster)
namespace = k8s.core.v1.Namespace("n", opts=options)
name = namespace.metadata["name"]
account = k8s.core.v1.ServiceAccount(
    "a", metadata={"namespace": name, "labels": {"deadline": config.get("deadline") or "1"}},
    automount_service_account_token=False,
    opts=pulumi.ResourceOptions(provider=cluster, ignore_changes=['metadata.labels["deadline"]']))
scripts = k8s.core.v1.ConfigMap("c", metadata={"namespace": name, "name": "scripts"},
    data={"s.py": config.get("script") or "print()"}, opts=options)
secret = k8s.core.v1.Secret("s", metadata={"namespace": name}, string_data={"p": pulumi.Output.secret("s3cret")},
    opts=options)
widget = k8s.apiextensions.CustomResource("w", api_version="example.com/v1", kind="Widget",
    metadata={"namespace": name, "name": "w"},
    spec={"template": {"nodeSelector": {}}, "n": config.get_int("n") or 1, "account": account.metadata["name"]},
    opts=pulumi.ResourceOptions(provider=cluster, depends_on=[scripts],
        replace_on_changes=["spec.account"], delete_before_replace=True))
pulumi.export("namespace", name)
pulumi.export("uid", widget.metadata.apply(lambda metadata: metadata.get("uid")))
"""


@pytest.fixture
def port() -> Generator[int]:
    """Our provider, served in a thread."""
    loop = asyncio.new_event_loop()
    server = ProviderServer(KubernetesProvider(None))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    asyncio.run_coroutine_threadsafe(server.stop(0.1), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_life_of_a_stack(engine_project: Any, cluster: Any, port: int) -> None:
    project = engine_project
    project.providers["kubernetes"] = port
    project.program(PROGRAM)
    project.run("config", "set", "kubeconfig", str(cluster.layout.kubeconfig), "-s", "dev")
    preview = project.run("preview", "-s", "dev")
    assert "7 to create" in preview
    assert "warning" not in preview
    assert "7 created" in project.run("up", "--yes", "--skip-preview", "-s", "dev")
    name = project.run("stack", "output", "namespace", "-s", "dev").strip()
    project.run("preview", "--expect-no-changes", "--diff", "-s", "dev")
    project.run("refresh", "--yes", "--expect-no-changes", "-s", "dev")
    # What the refresh has written into the state changes nothing, and what is to be ignored neither.
    project.run("config", "set", "deadline", "2", "-s", "dev")
    project.run("preview", "--expect-no-changes", "--diff", "-s", "dev")

    uid = project.run("stack", "output", "uid", "-s", "dev").strip()
    project.run("config", "set", "n", "2", "-s", "dev")
    assert "1 updated" in project.run("up", "--yes", "--skip-preview", "-s", "dev")
    path = f"/apis/example.com/v1/namespaces/{name}/widgets/w"
    live = cluster.call("GET", path)
    assert (live["spec"]["n"], live["metadata"]["uid"]) == (2, uid)

    project.run("config", "set", "script", "print(1)", "-s", "dev")
    assert "1 replaced" in project.run("up", "--yes", "--skip-preview", "-s", "dev")
    assert cluster.call("GET", f"/api/v1/namespaces/{name}/configmaps/scripts")["data"] == {"s.py": "print(1)"}

    cluster.call("PATCH", path, {"spec": {"n": 5}})
    project.run("refresh", "--yes", "-s", "dev")
    assert "patchForce" in project.run("preview", "-s", "dev", code=1)
    cluster.call("PATCH", path, {"spec": {"n": 2}})
    project.run("refresh", "--yes", "-s", "dev")
    project.run("preview", "--expect-no-changes", "-s", "dev")

    state = (project.folder / "state" / ".pulumi" / "stacks" / "tiny" / "dev.json").read_text()
    assert "s3cret" not in state
    assert "czNjcmV0" not in state
    assert "7 deleted" in project.run("destroy", "--yes", "-s", "dev")
    assert not cluster.exists(f"/api/v1/namespaces/{name}")


def test_a_stack_whose_cluster_is_gone_can_be_destroyed(engine_project: Any, cluster: Any, port: int) -> None:
    project = engine_project
    project.providers["kubernetes"] = port
    project.program(PROGRAM)
    kubeconfig = project.folder / "kubeconfig"
    kubeconfig.write_text(cluster.layout.kubeconfig.read_text())
    project.run("config", "set", "kubeconfig", str(kubeconfig), "-s", "dev")
    project.run("up", "--yes", "--skip-preview", "-s", "dev")
    kubeconfig.unlink()
    assert "7 deleted" in project.run("destroy", "--yes", "-s", "dev")
