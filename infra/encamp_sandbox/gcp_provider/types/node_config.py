"""Node configs, which clusters and node pools have alike.

Source: hashicorp/terraform-provider-google-beta google-beta/services/container/node_config.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

#: Taints that GKE adds by itself; a program that does not give one does not see it.
_SYSTEM_TAINTS = ("nvidia.com/gpu", "google.com/tpu")
_SYSTEM_LABEL = "goog-gke-"
_NAMES: Final = {
    "guestAccelerators": "accelerators",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "loggingVariant": "loggingConfig.variantConfig.variant",
    "sandboxConfig.sandboxType": "type",
    "resourceManagerTags": "resourceManagerTags.tags",
    "effectiveTaints": "taints",
}
_LONGS: Final = ("guestAccelerators.count", "bootDisk.sizeGb", "advancedMachineFeatures.threadsPerCore")


def names(prefix: str) -> dict[str, str]:
    """Return the API's names of properties below a node config."""
    return {f"{prefix}.{path}": name for path, name in _NAMES.items()}


def longs(prefix: str) -> frozenset[str]:
    """Return numbers below a node config that the API takes as text."""
    return frozenset(f"{prefix}.{path}" for path in _LONGS)


def out(prefix: str) -> dict[str, Callable[[Any], Any]]:
    """Return values below a node config on their way to the API."""
    return {f"{prefix}.kubeletConfig.insecureKubeletReadonlyPortEnabled": from_flag}


def into(prefix: str) -> dict[str, Callable[[Any], Any]]:
    """Return values below a node config on their way from the API."""
    return {f"{prefix}.kubeletConfig.insecureKubeletReadonlyPortEnabled": to_flag}


def from_flag(text: object) -> bool:
    """Return the API's boolean for the provider's ``TRUE`` or ``FALSE``."""
    return str(text) == "TRUE"


def to_flag(on: object) -> str:
    """Return the provider's ``TRUE`` or ``FALSE``."""
    return "TRUE" if on else "FALSE"


def shown(config: Body, given: Properties | None) -> Body:
    """Return a node config without what GKE adds to lists that a program writes.

    Args:
        config: as the API shows it, in properties.
        given: what the program gave.
    """
    own = [str(one.get("key")) for one in (given or {}).get("taints") or ()]
    taints = [one for one in config.get("taints") or () if one["key"] not in _SYSTEM_TAINTS or one["key"] in own]
    return {
        **config,
        "taints": taints,
        "spot": bool(config.get("spot")),
        "preemptible": bool(config.get("preemptible")),
    }


def same_labels(old: Any, new: Any) -> bool:
    """Whether labels differ in GKE's own alone."""
    own = [
        {key: value for key, value in (one or {}).items() if not key.startswith(_SYSTEM_LABEL)} for one in (old, new)
    ]
    return own[0] == own[1]


def same_scopes(old: Any, new: Any) -> bool:
    """Whether scopes differ in those that GKE adds by itself."""
    added = {f"https://www.googleapis.com/auth/{name}" for name in ("monitoring.write", "monitoring")}
    return set(old or ()) - added == set(new or ()) - added
