from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.pod_logs import LogUnavailableError
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_objects_are_read_listed_by_label_and_deleted(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.put("pods", "a", {"x": "1"})
    kubernetes.put("pods", "b", {"x": "2"})
    found = cluster.get("pods", "n", "a")
    assert found is not None
    assert found["metadata"]["uid"] == "uid-a"
    assert [pod["metadata"]["name"] for pod in cluster.list("pods", "n", "x=2")] == ["b"]
    cluster.delete("pods", "n", "a")
    assert cluster.get("pods", "n", "a") is None


def test_a_restarting_server_is_waited_for(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.put("pods", "a")
    kubernetes.fail("GET .*pods/a", 503, 500, 429)
    assert cluster.get("pods", "n", "a") is not None


@pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b"[]", b'{"items": []}'])
def test_an_answer_that_is_no_object_is_quoted_and_no_fault_of_ours(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    proxy = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    monkeypatch.setattr(cluster, "_http", httpx.Client(transport=proxy, base_url="https://k"))
    asked: tuple[Callable[[], object], ...] = (
        lambda: cluster.get("pods", "n", "a"),
        lambda: cluster.list("pods", "n"),
        lambda: cluster.create("secrets", "n", SECRET),
    )
    for ask in asked:
        with pytest.raises(EngineError, match="no Kubernetes object") as caught:
            ask()
        assert "/namespaces/n/" in str(caught.value)


SECRET = {"metadata": {"name": "s", "labels": {"job": "j"}}, "stringData": {"job": "text"}}


def test_an_object_whose_answer_was_lost_counts_as_made(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.put("secrets", "s", {"job": "j"}, data={"job": "dGV4dA=="})
    kubernetes.fail("POST .*secrets", 504)
    assert cluster.create("secrets", "n", SECRET) is not None
    assert cluster.create("secrets", "n", SECRET) is None


@pytest.mark.parametrize("data", [{"job": "b3RoZXI="}, {}])
def test_an_object_that_somebody_else_made_meanwhile_does_not(
    kubernetes: Any, cluster: Cluster, data: dict[str, str]
) -> None:
    kubernetes.put("secrets", "s", {"job": "j"}, data=data)
    kubernetes.fail("POST .*secrets", 504)
    assert cluster.create("secrets", "n", SECRET) is None


def test_a_servers_retry_after_is_followed(kubernetes: Any) -> None:
    kubernetes.put("pods", "a")
    kubernetes.busy("GET", "3", "60")
    pauses: list[float] = []
    cluster = Cluster(kubernetes.kubeconfig(), sleep=pauses.append)
    try:
        assert cluster.get("pods", "n", "a") is not None
    finally:
        cluster.close()
    assert pauses == [3.0, 5.0]


@pytest.mark.parametrize(("failures", "message"), [(2, ""), (9, "the credential plugin failed with 1: no network")])
def test_a_credential_plugin_that_fails_is_run_again_a_few_times(
    kubernetes: Any, tmp_path: Any, failures: int, message: str
) -> None:
    count = tmp_path / "count"
    script = (
        f"import json, pathlib, sys; p = pathlib.Path({str(count)!r}); n = len(p.read_text()) if p.exists() else 0;"
        f"p.write_text('x' * (n + 1)); n >= {failures} or sys.exit('no network');"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1',"
        "'kind': 'ExecCredential', 'status': {'token': 'token'}}))"
    )
    version = "client.authentication.k8s.io/v1beta1"
    user = {"exec": {"apiVersion": version, "command": sys.executable, "args": ["-c", script]}}
    kubernetes.put("pods", "a")
    cluster = Cluster(kubernetes.kubeconfig(user), sleep=lambda _: None)
    try:
        with pytest.raises(EngineError, match=message) if message else contextlib.nullcontext():
            assert cluster.get("pods", "n", "a") is not None
    finally:
        cluster.close()
    assert len(count.read_text()) == 3


def test_a_refusal_names_the_request_and_the_servers_words(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.say("GET", 403, {"message": 'pods "a" is forbidden'})
    with pytest.raises(EngineError, match="forbidden"):
        cluster.get("pods", "n", "a")


def test_who_may_not_list_what_older_roles_do_not_name_finds_none(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.put("resourceclaimtemplates", "a", {"x": "1"})
    assert [one["metadata"]["name"] for one in cluster.list("resourceclaimtemplates", "n", "x=1")] == ["a"]
    kubernetes.say("GET", 403, {"message": "resourceclaimtemplates is forbidden"})
    assert cluster.list("resourceclaimtemplates", "n") == []
    kubernetes.say("GET", 403, {"message": "pods is forbidden"})
    with pytest.raises(EngineError, match="forbidden"):
        cluster.list("pods", "n")


def _read(cluster: Cluster, pod: str, *, follow: bool) -> bytes:
    async def read() -> bytes:
        logs = cluster.logs()
        try:
            return b"".join([piece async for piece in logs.read("n", pod, "replica", follow=follow)])
        finally:
            await logs.close()

    return asyncio.run(read())


def test_a_log_comes_with_times_and_a_missing_one_says_so(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.logs["a"] = [[b"2026-01-01T00:00:00.1Z one\n"]]
    assert _read(cluster, "a", follow=False) == b"2026-01-01T00:00:00.1Z one\n"
    assert kubernetes.log_requests[0].first("timestamps") == "true"
    with pytest.raises(LogUnavailableError):
        _read(cluster, "none", follow=True)


def test_a_broken_stream_is_an_error_and_no_end(kubernetes: Any, cluster: Cluster) -> None:
    kubernetes.logs["a"] = [[b"2026-01-01T00:00:00.1Z one\n", None]]
    with pytest.raises(httpx.HTTPError):
        _read(cluster, "a", follow=True)


def test_the_exec_plugin_runs_once_and_again_when_its_token_is_refused(kubernetes: Any, tmp_path: Any) -> None:
    count = tmp_path / "count"
    script = (
        f"import json, pathlib; p = pathlib.Path({str(count)!r}); n = int(p.read_text() or 0) + 1 if p.exists() else 1;"
        "p.write_text(str(n)); print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1',"
        "'kind': 'ExecCredential', 'status': {'token': f'token-{n}'}}))"
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": sys.executable,
            "args": ["-c", script],
        }
    }
    kubernetes.put("pods", "a")
    cluster = Cluster(kubernetes.kubeconfig(user))
    try:
        cluster.get("pods", "n", "a")
        cluster.get("pods", "n", "a")
        assert count.read_text() == "1"
        kubernetes.fail("GET", 401)
        assert cluster.get("pods", "n", "a") is not None
    finally:
        cluster.close()
    assert kubernetes.requests[-1].headers["Authorization"] == "Bearer token-2"


@pytest.mark.parametrize("text", ["", "[]", "clusters: {}", "{clusters: [], contexts: [], users: []}"])
def test_what_is_no_kubeconfig_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="kubeconfig"):
        Cluster(text)


def test_a_plugin_that_is_missing_is_named(kubernetes: Any) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "no-such-plugin-here"}}
    cluster = Cluster(kubernetes.kubeconfig(user))
    try:
        with pytest.raises(EngineError, match="not on PATH"):
            cluster.get("pods", "n", "a")
    finally:
        cluster.close()
