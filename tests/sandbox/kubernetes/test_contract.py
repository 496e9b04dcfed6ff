"""What a ``kubernetes`` provider does against a real API server; the official one is held to it where it is on PATH."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from encamp_sandbox.provider import UNKNOWN, Secret, messages
from encamp_sandbox.provider.values import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

pytestmark = pytest.mark.sandbox

CONFIG_MAP, ACCOUNT, NAMESPACE = (
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:core/v1:Namespace",
)
SECRET, JOB, WIDGET = "kubernetes:core/v1:Secret", "kubernetes:batch/v1:Job", "kubernetes:example.com/v1:Widget"
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def widget(namespace: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}, **more}


def owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": True}


async def appears(cluster: Any, path: str) -> None:
    """Wait until the API server has an object, however busy the machine is."""
    for _ in range(1000):
        if cluster.exists(path):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(path)


class TestContract:
    def test_create_is_a_post_and_an_existing_object_is_an_error(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                inputs = {"metadata": {"name": "c", "namespace": namespace}, "data": {"a": "1"}}
                resource_id, state = await engine.create(CONFIG_MAP, "c", inputs)
                assert resource_id == f"{namespace}/c"
                assert state["outputs"]["data"] == {"a": "1"}
                assert state["outputs"]["__fieldManager"].startswith("pulumi-kubernetes-")
                with pytest.raises(grpc.aio.AioRpcError, match="already exists"):
                    await engine.create(CONFIG_MAP, "other", inputs)

        run(work())

    def test_upsert_takes_an_existing_object(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            cluster.call("POST", path, {"metadata": {"name": "c"}, "data": {"theirs": "1"}})
            async with provider(kubeconfig=cluster.kubeconfig, upsertExistingObjects="true") as engine:
                inputs = {"metadata": {"name": "c", "namespace": namespace}, "data": {"ours": "2"}}
                await engine.create(CONFIG_MAP, "c", inputs)
            assert cluster.call("GET", f"{path}/c")["data"] == {"theirs": "1", "ours": "2"}

        run(work())

    def test_update_keeps_foreign_fields_and_drops_our_own_that_are_gone(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                about = {"name": "a", "namespace": namespace}
                first = {"metadata": {**about, "labels": {"ours": "1", "gone": "1"}}}
                _, state = await engine.create(ACCOUNT, "a", first)
                path = f"/api/v1/namespaces/{namespace}/serviceaccounts/a"
                cluster.call("PATCH", path, {"metadata": {"labels": {"theirs": "x"}}})
                second = {"metadata": {**about, "labels": {"ours": "2"}}}
                state = await engine.update(ACCOUNT, "a", state, second)
                assert cluster.call("GET", path)["metadata"]["labels"] == {"ours": "2", "theirs": "x"}
                third = {"metadata": {**about, "labels": {"ours": "3"}}}
                await engine.update(ACCOUNT, "a", state, third)
                assert cluster.call("GET", path)["metadata"]["labels"] == {"ours": "3", "theirs": "x"}

        run(work())

    def test_a_field_that_another_manager_applied_is_a_conflict_until_forced(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                about = {"name": "a", "namespace": namespace}
                _, state = await engine.create(ACCOUNT, "a", {"metadata": {**about, "labels": {"l": "1"}}})
                path = f"/api/v1/namespaces/{namespace}/serviceaccounts/a"
                theirs = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "labels": {"l": "2"}}}
                cluster.call("PATCH", path, theirs, fieldManager="they", force="true")
                wanted = {"metadata": {**about, "labels": {"l": "3"}}}
                with pytest.raises(grpc.aio.AioRpcError, match="conflict"):
                    await engine.update(ACCOUNT, "a", state, wanted)
                wanted["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
                await engine.update(ACCOUNT, "a", state, wanted)
                assert cluster.call("GET", path)["metadata"]["labels"] == {"l": "3"}

        run(work())

    def test_delete_waits_until_all_that_belongs_to_the_object_is_gone(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        """As a study's object, its trials' JobSets, and what belongs to these."""

        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                about = {"name": "study", "namespace": namespace}
                resource_id, state = await engine.create(CONFIG_MAP, "study", {"metadata": about})
                path, accounts = (
                    f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("configmaps", "serviceaccounts")
                )
                study = owner("ConfigMap", "study", state["outputs"]["metadata"]["uid"])
                trial = cluster.call("POST", accounts, {"metadata": {"name": "trial", "ownerReferences": [study]}})
                whose = owner("ServiceAccount", "trial", trial["metadata"]["uid"])
                held = {"name": "part", "ownerReferences": [whose], "finalizers": ["example.com/hold"]}
                cluster.call("POST", path, {"metadata": held})
                deletion = asyncio.ensure_future(engine.delete(CONFIG_MAP, "study", resource_id, state))
                await asyncio.sleep(2)
                assert not deletion.done()
                assert cluster.exists(f"{path}/study")
                assert cluster.exists(f"{accounts}/trial")
                cluster.call("PATCH", f"{path}/part", {"metadata": {"finalizers": None}})
                await asyncio.wait_for(deletion, 40)
                for gone in (f"{path}/study", f"{accounts}/trial", f"{path}/part"):
                    assert not cluster.exists(gone)
                await engine.delete(CONFIG_MAP, "study", resource_id, state)

        run(work())

    def test_a_deletion_that_is_held_names_the_finalizer(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                inputs = widget(namespace)
                inputs["metadata"]["finalizers"] = ["example.com/hold"]
                resource_id, state = await engine.create(WIDGET, "w", inputs)
                with pytest.raises(grpc.aio.AioRpcError, match="timed out waiting") as caught:
                    await engine.delete(WIDGET, "w", resource_id, state, timeout=1)
                # Said beside the error by the one, within it by the other.
                assert "example.com/hold" in f"{caught.value.details()} {engine.host.said}"
                path = f"/apis/example.com/v1/namespaces/{namespace}/widgets/w"
                cluster.call("PATCH", path, {"metadata": {"finalizers": None}})

        run(work())

    def test_a_namespace_is_gone_when_its_deletion_returns(self, cluster: Any, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                resource_id, state = await engine.create(NAMESPACE, "auto", {})
                assert resource_id.startswith("auto-")
                assert len(resource_id) == len("auto-") + 8
                assert state["outputs"]["metadata"]["annotations"]["pulumi.com/autonamed"] == "true"
                await engine.delete(NAMESPACE, "auto", resource_id, state)
                assert not cluster.exists(f"/api/v1/namespaces/{resource_id}")

        run(work())

    def test_the_same_inputs_are_no_change_and_an_automatic_name_stays(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            none = messages.provider_pb2.DiffResponse.DIFF_NONE
            async with provider(kubeconfig=cluster.kubeconfig, namespace=namespace) as engine:
                cases: list[tuple[str, dict[str, Any]]] = [
                    (ACCOUNT, {"metadata": {"annotations": {"a.b/c": "d"}}, "imagePullSecrets": []}),
                    (CONFIG_MAP, {"data": {"a": "1"}}),
                    (SECRET, {"stringData": {"password": Secret("p")}}),
                    (WIDGET, {"spec": {"n": 1, "empty": {}, "list": [{"x": 1.5}]}}),
                    (
                        JOB,
                        {
                            "metadata": {"annotations": {"pulumi.com/skipAwait": "true"}},
                            "spec": {
                                "parallelism": 2,
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "nodeSelector": {},
                                        "containers": [
                                            {
                                                "name": "c",
                                                "image": "i",
                                                "resources": {
                                                    "limits": {"cpu": "1000m", "memory": "1024Mi", "x.y/z": 2}
                                                },
                                            }
                                        ],
                                    }
                                },
                            },
                        },
                    ),
                ]
                for token, inputs in cases:
                    _, state = await engine.create(token, "same", inputs)
                    answer = await engine.diff(token, "same", state, inputs)
                    assert answer.changes == none, (token, dict(answer.detailedDiff))

        run(work())

    def test_check_gives_inputs_in_normal_form(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        """As the API server would store them; of custom resources only their server knows that."""

        async def work() -> None:
            pod: dict[str, Any] = {
                "restartPolicy": "Never",
                "nodeSelector": {},
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 2, "memory": "1024Mi"}}}],
            }
            async with provider(kubeconfig=cluster.kubeconfig, namespace=namespace) as engine:
                inputs = await engine.check(JOB, "n", {"spec": {"template": {"spec": pod}}})
                spec = inputs["spec"]["template"]["spec"]
                assert "nodeSelector" not in spec
                assert spec["containers"][0]["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}
                inputs = await engine.check(WIDGET, "w", widget(namespace, spec={"empty": {}, "cpu": 2}))
                assert inputs["spec"] == {"empty": {}, "cpu": 2}

        run(work())

    def test_fields_of_schemas_have_the_names_of_the_sdk_in_outputs(
        self, cluster: Any, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            schema = {"type": "object", "x_kubernetes_preserve_unknown_fields": True}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
            inputs = {
                "metadata": {"name": "gizmos.example.com", "annotations": {"pulumi.com/skipAwait": "true"}},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
            }
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                resource_id, state = await engine.create(DEFINITION, "g", inputs)
                try:
                    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.example.com"
                    (live,) = cluster.call("GET", path)["spec"]["versions"]
                    assert live["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True
                    (told,) = state["outputs"]["spec"]["versions"]
                    assert told["schema"]["openAPIV3Schema"] == schema
                    answer = await engine.diff(DEFINITION, "g", state, inputs)
                    assert answer.changes == messages.provider_pb2.DiffResponse.DIFF_NONE
                finally:
                    await engine.delete(DEFINITION, "g", resource_id, state)

        run(work())

    def test_what_forces_a_replacement(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            about = {"name": "x", "namespace": namespace}
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                _, state = await engine.create(CONFIG_MAP, "x", {"metadata": about, "data": {"a": "1"}})
                answer = await engine.diff(CONFIG_MAP, "x", state, {"metadata": about, "data": {"a": "2"}})
                assert (list(answer.replaces), answer.deleteBeforeReplace) == (["data.a"], True)
                renamed = {"metadata": {**about, "name": "y"}, "data": {"a": "1"}}
                answer = await engine.diff(CONFIG_MAP, "x", state, renamed)
                assert (list(answer.replaces), answer.deleteBeforeReplace) == (["metadata.name"], False)
                _, state = await engine.create(WIDGET, "w", widget(namespace, spec={"n": 1}))
                answer = await engine.diff(WIDGET, "w", state, widget(namespace, spec={"n": 2}))
                assert (list(answer.replaces), list(answer.detailedDiff)) == ([], ["spec.n"])
                answer = await engine.diff(
                    WIDGET, "w", state, widget(namespace, spec={"n": 2}), ignoreChanges=["spec.n"]
                )
                assert answer.changes == messages.provider_pb2.DiffResponse.DIFF_NONE

        run(work())

    def test_config_maps_can_be_made_mutable(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            about = {"name": "x", "namespace": namespace}
            async with provider(kubeconfig=cluster.kubeconfig, enableConfigMapMutable="true") as engine:
                _, state = await engine.create(CONFIG_MAP, "x", {"metadata": about, "data": {"a": "1"}})
                answer = await engine.diff(CONFIG_MAP, "x", state, {"metadata": about, "data": {"a": "2"}})
                assert list(answer.replaces) == []

        run(work())

    def test_a_preview_asks_the_server_and_changes_nothing(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                about = {"name": "x", "namespace": namespace}
                _, state = await engine.create(CONFIG_MAP, "x", {"metadata": about}, preview=True)
                assert not cluster.exists(f"/api/v1/namespaces/{namespace}/configmaps/x")
                bad: dict[str, Any] = {"metadata": about, "spec": {"template": {"spec": {"containers": []}}}}
                with pytest.raises(grpc.aio.AioRpcError, match=r"(?i)required value"):
                    await engine.create(JOB, "x", bad, preview=True)
                later = {"metadata": about, "data": {"a": UNKNOWN}}
                _, state = await engine.create(CONFIG_MAP, "x", later, preview=True)
                assert state["outputs"]["data"] == {"a": UNKNOWN}
                nowhere = {"metadata": {"name": "x", "namespace": "not-yet"}}
                await engine.create(CONFIG_MAP, "x", nowhere, preview=True)
                _, state = await engine.create(CONFIG_MAP, "x", {"metadata": about, "data": {"a": "1"}})
                await engine.update(CONFIG_MAP, "x", state, {"metadata": about, "data": {"a": "2"}}, preview=True)
                live = cluster.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/x")
                assert live["data"] == {"a": "1"}

        run(work())

    def test_secret_data_is_secret(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig, namespace=namespace) as engine:
                _, state = await engine.create(SECRET, "s", {"stringData": Secret({"p": "open"})})
                assert state["inputs"]["data"] == Secret({"p": "b3Blbg=="})
                assert "stringData" not in state["inputs"]
                assert state["outputs"]["data"] == Secret({"p": "b3Blbg=="})

        run(work())

    def test_read_shows_drift_of_our_fields_only(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                about = {"name": "a", "namespace": namespace}
                inputs = {"metadata": {**about, "labels": {"ours": "1"}}}
                resource_id, state = await engine.create(ACCOUNT, "a", inputs)
                path = f"/api/v1/namespaces/{namespace}/serviceaccounts/a"
                cluster.call("PATCH", path, {"metadata": {"labels": {"ours": "changed", "theirs": "x"}}})
                answer = await engine.read(ACCOUNT, "a", resource_id, state)
                assert decode(answer.inputs)["metadata"]["labels"] == {"ours": "changed"}
                assert decode(answer.properties)["metadata"]["labels"] == {"ours": "changed", "theirs": "x"}
                cluster.call("DELETE", path)
                assert (await engine.read(ACCOUNT, "a", resource_id, state)).id == ""

        run(work())

    def test_import_by_namespace_and_name(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            cluster.call("POST", path, {"metadata": {"name": "c"}, "data": {"a": "1"}})
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                answer = await engine.read(CONFIG_MAP, "c", f"{namespace}/c")
                inputs = decode(answer.inputs)
                assert inputs["data"] == {"a": "1"}
                assert "uid" not in inputs["metadata"]
                assert answer.id == f"{namespace}/c"

        run(work())

    def test_wait_for_a_custom_resource(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                inputs = widget(namespace)
                wanted = ["jsonpath={.status.phase}=Done", "condition=Ready"]
                inputs["metadata"]["annotations"] = {"pulumi.com/waitFor": json.dumps(wanted)}
                creation = asyncio.ensure_future(engine.create(WIDGET, "w", inputs))
                path = f"/apis/example.com/v1/namespaces/{namespace}/widgets/w"
                await appears(cluster, path)
                cluster.call("PATCH", f"{path}/status", {"status": {"phase": "Done"}})
                await asyncio.sleep(1)
                assert not creation.done()
                conditions = [{"type": "Ready", "status": "True"}]
                cluster.call("PATCH", f"{path}/status", {"status": {"conditions": conditions}})
                _, state = await asyncio.wait_for(creation, 40)
                assert state["outputs"]["status"]["phase"] == "Done"

        run(work())

    def test_what_did_not_get_ready_in_time_exists_all_the_same(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                inputs = widget(namespace)
                inputs["metadata"]["annotations"] = {
                    "pulumi.com/waitFor": "jsonpath={.status.phase}",
                    "pulumi.com/timeoutSeconds": "1",
                }
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await engine.create(WIDGET, "w", inputs)
                metadata: dict[str, Any] = dict(caught.value.trailing_metadata())
                status = messages.status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
                detail = messages.provider_pb2.ErrorResourceInitFailed()
                assert status.details[0].Unpack(detail)
                assert detail.id == f"{namespace}/w"

        run(work())

    def test_a_job_that_nobody_runs_is_waited_for_until_cancel(
        self, cluster: Any, namespace: str, provider: Callable[..., Any]
    ) -> None:
        async def work() -> None:
            from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  only here

            async with provider(kubeconfig=cluster.kubeconfig, namespace=namespace) as engine:
                pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
                job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}
                creation = asyncio.ensure_future(engine.create(JOB, "j", job))
                await appears(cluster, f"/apis/batch/v1/namespaces/{namespace}/jobs/j")
                await asyncio.sleep(0.5)
                assert not creation.done()
                await engine.stub.Cancel(Empty())
                with pytest.raises(grpc.aio.AioRpcError):
                    await asyncio.wait_for(creation, 30)

        run(work())

    def test_a_kind_that_nobody_serves(self, cluster: Any, namespace: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            token = "kubernetes:example.com/v1:Gadget"  # noqa: S105  a type, no password
            inputs = {
                "apiVersion": "example.com/v1",
                "kind": "Gadget",
                "metadata": {"name": "g", "namespace": namespace},
            }
            async with provider(kubeconfig=cluster.kubeconfig) as engine:
                await engine.create(token, "g", inputs, preview=True)
                state = {"inputs": inputs, "outputs": inputs}
                await engine.delete(token, "g", f"{namespace}/g", state)
                assert (await engine.read(token, "g", f"{namespace}/g", state)).id == ""

        run(work())

    def test_an_unreachable_cluster(self, missing_kubeconfig: str, provider: Callable[..., Any]) -> None:
        async def work() -> None:
            about = {"metadata": {"name": "x", "namespace": "n"}}
            state = {"inputs": about, "outputs": {"apiVersion": "v1", "kind": "ConfigMap", **about}}
            async with provider(kubeconfig=missing_kubeconfig) as engine:
                with pytest.raises(grpc.aio.AioRpcError, match=r"unreachable|cannot be read"):
                    await engine.create(CONFIG_MAP, "x", about)
                with pytest.raises(grpc.aio.AioRpcError, match="unreachable"):
                    await engine.delete(CONFIG_MAP, "x", "n/x", state)
            async with provider(kubeconfig=missing_kubeconfig, deleteUnreachable="true") as engine:
                await engine.delete(CONFIG_MAP, "x", "n/x", state)
                assert (await engine.read(CONFIG_MAP, "x", "n/x", state)).id == ""
            async with provider(kubeconfig=missing_kubeconfig, skipUpdateUnreachable="true") as engine:
                assert (await engine.read(CONFIG_MAP, "x", "n/x", state)).id == "n/x"

        run(work())
