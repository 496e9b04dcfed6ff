from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.kubeconfig import CredentialError, ExecPlugin, KubeconfigError, ask, load
from encamp.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(**user: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c1", "user": "u", "namespace": "ns"}},
            {"name": "two", "context": {"cluster": "c2"}},
        ],
        "clusters": [
            {"name": "c1", "cluster": {"server": "https://a/", "certificate-authority-data": _encoded("CA")}},
            {"name": "c2", "cluster": {"server": "https://b", "insecure-skip-tls-verify": True}},
        ],
        "users": [{"name": "u", "user": user}],
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_content_and_contexts() -> None:
    text = json.dumps(kubeconfig(token="t"))  # noqa: S106  no password
    one = load(text, None, None)
    assert (one.server, one.namespace, one.authority, one.credential.token) == ("https://a", "ns", b"CA", "t")
    two = load(text, "two", None)
    assert (two.server, two.insecure, two.credential.token) == ("https://b", True, None)
    assert load(text, "one", "c2").server == "https://b"


def test_a_path_and_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "c.crt").write_text("CERT")
    data = kubeconfig(**{"client-certificate": "c.crt", "client-key-data": _encoded("KEY")})
    path = tmp_path / "config"
    path.write_text(json.dumps(data))
    credential = load(str(path), None, None).credential
    assert (credential.certificate, credential.key) == (b"CERT", b"KEY")


def test_the_environment_names_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig()))
    monkeypatch.setenv("KUBECONFIG", f"{path}:other")
    assert load(None, None, None).server == "https://a"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": ""}, "no current context"),
        ({"current-context": "three"}, "no context named 'three'"),
        ({"clusters": []}, "no cluster named 'c1'"),
        ({"users": []}, "no user named 'u'"),
        ({"clusters": [{"name": "c1", "cluster": {}}]}, "has no server"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        load(json.dumps({**kubeconfig(), **change}), None, None)


@pytest.mark.parametrize(
    ("text", "message"), [("/no/such/file", "cannot be read"), ("a: [\n", "no YAML"), ("[]\n", "no map")]
)
def test_what_is_no_kubeconfig(text: str, message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        load(text, None, None)


def plugin(tmp_path: Path, script: str) -> ExecPlugin:
    command = tmp_path / "plugin"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o700)
    return ExecPlugin(str(command), ("arg",), {"SAID": "hello"}, V1, "install it")


def test_an_exec_plugin_gets_its_arguments_and_the_version(tmp_path: Path) -> None:
    script = (
        'echo "{\\"status\\": {\\"token\\": \\"$1 $SAID\\", \\"expirationTimestamp\\": \\"2030-01-01T00:00:00Z\\"}}"'
    )
    credential = ask(plugin(tmp_path, f'case "$KUBERNETES_EXEC_INFO" in *{V1}*) {script};; esac'))
    assert credential.token == "arg hello"  # noqa: S105  no password
    assert credential.expires
    assert credential.expires.isoformat() == "2030-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("script", "message"), [("echo broken >&2; exit 3", "failed with 3: broken"), ("echo hi", "answered no Exec")]
)
def test_an_exec_plugin_that_fails(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(CredentialError, match=message):
        ask(plugin(tmp_path, script))


def test_an_exec_plugin_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    missing = ExecPlugin(str(tmp_path / "none"), (), {}, V1, "install it")
    with pytest.raises(EngineError, match="install it"):
        ask(missing)


def test_an_exec_plugin_of_an_old_version_is_refused() -> None:
    data = kubeconfig(exec={"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"})
    with pytest.raises(KubeconfigError, match="v1alpha1"):
        load(json.dumps(data), None, None)


@pytest.mark.parametrize(
    "text",
    [
        "users:\n- name: u\n  user: {token: hunter2\n",
        json.dumps(kubeconfig(**{"client-key-data": "hunter2!"})),
        json.dumps({**kubeconfig(), "users": [{"name": "u", "user": "hunter2"}]}),
    ],
)
def test_no_error_quotes_a_kubeconfig(text: str) -> None:
    with pytest.raises(KubeconfigError) as refused:
        load(text, None, None)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
