"""A stack's encrypted values as placeholders: what a preview without the stack's key is made of."""

from __future__ import annotations

import json
from typing import Any

from encamp.ci.encrypted import PLACEHOLDER, encrypted_inputs, readable_config, with_placeholders

MARK, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
CIPHERTEXT = {MARK: SECRET, "ciphertext": "v1:AAAA:BBBB"}
KUBECONFIG = json.dumps({"clusters": [{"cluster": {"certificate-authority-data": "QUJD"}}]})


def resource(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:lab::encamp::{kind}::{name}", "type": kind, **content}


def deployment(*resources: dict[str, Any]) -> dict[str, Any]:
    return {"secrets_providers": {"type": "cloud"}, "pending_operations": [{}], "resources": list(resources)}


def plain(value: Any) -> dict[str, Any]:
    return {MARK: SECRET, "plaintext": json.dumps(value)}


def test_no_ciphertext_and_no_key_stays_in_a_copied_state() -> None:
    hidden = resource("t", "a", inputs={"given": [1, CIPHERTEXT]}, outputs={"given": [1, CIPHERTEXT], "other": 2})
    copied = with_placeholders(deployment(hidden))
    assert copied == {
        "resources": [
            resource(
                "t",
                "a",
                inputs={"given": [1, plain(PLACEHOLDER)]},
                outputs={"given": [1, plain(PLACEHOLDER)], "other": 2},
            )
        ]
    }


def test_an_encrypted_output_takes_the_value_that_the_inputs_have_in_plain() -> None:
    held = resource("kubernetes:core/v1:Secret", "s", inputs={"data": {"a": "b"}}, outputs={"data": CIPHERTEXT})
    assert with_placeholders(deployment(held))["resources"][0]["outputs"] == {"data": plain({"a": "b"})}


def test_a_clusters_certificate_comes_from_the_kubeconfig_of_the_stack() -> None:
    cluster = resource("gcp:container/cluster:Cluster", "c", outputs={"masterAuth": CIPHERTEXT})
    for kubeconfig, certificate in ((KUBECONFIG, "QUJD"), (None, ""), ("{", "")):
        stack = resource("pulumi:pulumi:Stack", "encamp-lab", outputs={"kubeconfig": kubeconfig})
        copied = with_placeholders(deployment(stack, cluster))["resources"][1]
        assert copied["outputs"]["masterAuth"] == plain({"clusterCaCertificate": certificate})


def test_encrypted_inputs_are_listed_by_their_paths_and_a_providers_are_not() -> None:
    listed = encrypted_inputs(
        deployment(
            resource("t", "a", inputs={"spec": {"jobs": [{"a.b/c": CIPHERTEXT}]}, "open": 1}),
            resource("t", "b", inputs={"open": 1}, outputs={"closed": CIPHERTEXT}),
            resource("pulumi:providers:kubernetes", "p", inputs={"kubeconfig": CIPHERTEXT}),
        )
    )
    assert listed == [{"type": "t", "name": "a", "paths": ['spec.jobs[0]["a.b/c"]']}]


def test_a_config_keeps_its_shape_and_names_what_was_encrypted() -> None:
    secure = {"secure": "v1:AAAA:BBBB"}
    config = {"gcp:credentials": secure, "encamp:job": {"args": ["--epochs=1", secure]}, "gcp:project": "acme"}
    assert readable_config(config) == (
        {"encamp:job": {"args": ["--epochs=1", PLACEHOLDER]}, "gcp:project": "acme"},
        ["encamp:job.args[1]"],
    )
