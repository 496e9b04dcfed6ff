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


def labelled(provider: dict[str, Any], **content: Any) -> dict[str, Any]:
    """Outputs of a bucket whose labels are encrypted, copied beside its provider."""
    urn = "urn:pulumi:lab::encamp::pulumi:providers:gcp::default"
    made_by = {"urn": urn, "type": "pulumi:providers:gcp", "inputs": provider}
    hidden = {"pulumiLabels": CIPHERTEXT, "effectiveLabels": CIPHERTEXT}
    bucket = resource("gcp:storage/bucket:Bucket", "b", provider=f"{urn}::1-2", outputs=hidden, **content)
    outputs: dict[str, Any] = with_placeholders(deployment(made_by, bucket))["resources"][1]["outputs"]
    return outputs


def test_encrypted_labels_are_put_together_from_those_of_the_resource_and_its_provider() -> None:
    own, mark = {"team": "a"}, {"goog-pulumi-provisioned": "true"}
    assert labelled({}, inputs={"labels": own})["effectiveLabels"] == plain({**mark, **own})
    assert labelled({}, inputs={"resourceLabels": own})["pulumiLabels"] == plain({**mark, **own})
    assert labelled({"defaultLabels": '{"x": "y"}'}, inputs={})["pulumiLabels"] == plain({**mark, "x": "y"})
    assert labelled({"addPulumiAttributionLabel": "false"}, inputs={"labels": own})["pulumiLabels"] == plain(own)
    assert labelled({}, inputs={"labels": CIPHERTEXT})["pulumiLabels"] == plain(mark)


def test_encrypted_notes_of_a_bridged_provider_are_left_out() -> None:
    notes: dict[str, Any] = {"obj": {"ps": {"subnetworkId": CIPHERTEXT, "params": {"plu": {}}}}}
    subnetwork = resource("gcp:compute/subnetwork:Subnetwork", "s", outputs={"__pulumi_raw_state_delta": notes})
    copied = with_placeholders(deployment(subnetwork))["resources"][0]["outputs"]
    assert copied == {"__pulumi_raw_state_delta": {"obj": {"ps": {"params": {"plu": {}}}}}}
    wholly = resource("gcp:compute/network:Network", "n", outputs={"id": "x", "__pulumi_raw_state_delta": CIPHERTEXT})
    assert with_placeholders(deployment(wholly))["resources"][0]["outputs"] == {"id": "x"}


def test_what_is_noted_as_no_text_and_told_of_nowhere_counts_as_not_set() -> None:
    noted = {"customerEncryption": {"plu": {"i": {}}}, "tags": {"map": {}}, "rules": {"arr": {}}, "block": {"obj": {}}}
    outputs = {**dict.fromkeys(("content", *noted), CIPHERTEXT), "__pulumi_raw_state_delta": {"obj": {"ps": noted}}}
    file = resource("gcp:storage/bucketObject:BucketObject", "f", inputs={"rules": [1]}, outputs=outputs)
    copied = with_placeholders(deployment(file))["resources"][0]["outputs"]
    expected: dict[str, Any] = {
        "content": PLACEHOLDER,
        "customerEncryption": None,
        "tags": {},
        "rules": [1],
        "block": {},
    }
    assert {key: copied[key] for key in expected} == {key: plain(value) for key, value in expected.items()}


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
