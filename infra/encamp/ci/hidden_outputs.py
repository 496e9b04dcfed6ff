"""Outputs that are encrypted in a state, though the same state holds their values elsewhere in plain.

The gcp provider needs them in their true form: it reads a state by notes of its own, and ends with a panic where a text
stands in a map's place.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import yaml

from encamp.kinds.environment import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The engine's mark of a secret, and of other values that are no plain JSON (sdk/go/common/resource/sig).
SIGNATURE = "4dabf18193072939515e22adb298388d"
#: Key that a bridged provider writes beside outputs, to read them back as it had them from the cloud (pkg/tfbridge of
#: pulumi/pulumi-terraform-bridge).
NOTES = "__pulumi_raw_state_delta"
#: Values of unset properties that are noted as a map, an object or a list; of all others it is None.
_UNSET: dict[str, Any] = {"map": {}, "obj": {}, "arr": []}
_GCP = "pulumi:providers:gcp"
#: Inputs that hold a resource's labels. Monitoring's user labels have no encrypted twin.
_LABELS = ("labels", "resourceLabels")
#: Belief: gcp-provider-marks-what-it-makes.
_ATTRIBUTION = {"goog-pulumi-provisioned": "true"}


class HiddenOutputs:
    """Values of encrypted outputs that a deployment holds elsewhere in plain.

    Args:
        deployment: of ``pulumi stack export``.
    """

    def __init__(self, deployment: Mapping[str, Any]) -> None:
        resources = deployment.get("resources") or []
        self._providers = {one["urn"]: one.get("inputs") or {} for one in resources if one["type"] == _GCP}
        self._certificate = _certificate(resources)

    def of(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of outputs that may be encrypted, in their true form.

        Of what a bridged provider made, values that are told nowhere count as not set: it would compare any other.
        """
        outputs = resource.get("outputs") or {}
        notes = outputs.get(NOTES)
        noted = ((notes or {}).get("obj") or {}).get("ps") or {}
        known: dict[str, Any] = {} if notes is None else dict.fromkeys(outputs)
        known |= {key: _UNSET[form] for key, note in noted.items() for form in _UNSET if form in note}
        if resource["type"] == CLUSTER.token:
            known["masterAuth"] = {"clusterCaCertificate": self._certificate}
        provider = self._providers.get(str(resource.get("provider", "")).rpartition("::")[0])
        if provider is not None:
            labels = self._labels(provider, resource.get("inputs") or {})
            known |= {"pulumiLabels": labels, "effectiveLabels": labels}
        return known

    def _labels(self, provider: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, str]:
        """Return all labels of a resource: the provider's mark, its default ones, and the resource's own."""
        marked = provider.get("addPulumiAttributionLabel") not in (False, "false")
        default = provider.get("defaultLabels") or {}
        found: dict[str, Any] = dict(_ATTRIBUTION) if marked else {}
        for labels in (json.loads(default) if isinstance(default, str) else default, *map(inputs.get, _LABELS)):
            if isinstance(labels, dict) and SIGNATURE not in labels:
                found |= labels
        return {key: value for key, value in found.items() if isinstance(value, str)}


def _certificate(resources: Iterable[Mapping[str, Any]]) -> str:
    """Return the cluster's certificate as the kubeconfig among the stack's outputs has it; empty if it has none.

    The same certificate is encrypted in the cluster's own outputs: belief gke-client-key-makes-master-auth-secret.
    """
    for one in resources:
        kubeconfig = (one.get("outputs") or {}).get("kubeconfig")
        if one["type"] != "pulumi:pulumi:Stack" or not isinstance(kubeconfig, str):
            continue
        try:
            found = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"].get("certificate-authority-data") or ""
            base64.b64decode(found, validate=True)
        except (yaml.YAMLError, KeyError, IndexError, TypeError, ValueError, AttributeError):
            return ""
        return str(found)
    return ""
