"""Cloud Storage as files in pods: GKE's driver ``gcsfuse.csi.storage.gke.io``, with the real gcsfuse behind it.

What a pod may ask for, and the arguments that gcsfuse gets for it. As in GKE's driver, an option with a colon is one
of gcsfuse's configuration file and any other a flag, and options that would move gcsfuse's own places are dropped.
Sources: cloud.google.com/kubernetes-engine/docs/reference/cloud-storage-fuse-csi-driver,
github.com/GoogleCloudPlatform/gcs-fuse-csi-driver (pkg/csi_driver/utils.go, pkg/sidecar_mounter).

Beliefs: fuse-options-of-the-driver, fuse-bucket-of-all, fuse-pod-annotation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.cloud.quantity import in_units
from encamp_sandbox.kubelet.environment import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DRIVER = "gcsfuse.csi.storage.gke.io"
ANNOTATION = "gke-gcsfuse/volumes"
#: The bucket that stands for all of them, each as a folder.
ALL_BUCKETS = "_"

_LOG = logging.getLogger(__name__)
_KERNEL_FLAGS = ("ro", "noexec", "noatime")
_KERNEL_DEFAULTS = ("rw", "exec", "atime", "async")
#: Ours to set; and owners, since a container of the sandbox has one user and group.
_DROPPED = frozenset(
    {"foreground", "config-file", "temp-dir", "cache-dir", "log-file", "log-format", "o", "uid", "gid", "app-name"}
    | {"key-file", "token-url", "reuse-token-from-url", "enable-hns", "client-protocol", "prometheus-port"}
    | {"logging:file-path", "logging:format", "file-system:temp-dir", "file-system:uid", "file-system:gid"}
    | {"file-system:fuse-options", "gcs-auth:key-file", "gcs-auth:token-url", "gcs-auth:reuse-token-from-url"}
    | {"gcs-connection:client-protocol"}
)
_MIB = "1Mi"


@dataclass(frozen=True)
class BucketVolume:
    """A volume that shows a bucket, or all of them.

    Attributes:
        bucket: its name, or ``_``.
        kernel: of ``ro``, ``noexec``, ``noatime``.
        flags: of gcsfuse.
        config: of gcsfuse's configuration file.
        checked: whether the pod waits until its account may list the bucket, as it does unless told not to.
    """

    name: str
    bucket: str
    kernel: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    checked: bool = True

    @property
    def source(self) -> str:
        """The source in tables of mounts."""
        return "gcsfuse" if self.bucket == ALL_BUCKETS else self.bucket


def bucket_volumes(pod: Mapping[str, Any]) -> list[BucketVolume]:
    """Return the buckets that a pod mounts, where ``check_volume`` found nothing wrong."""
    volumes = pod["spec"].get("volumes") or []
    return [_bucket_volume(one["name"], one["csi"]) for one in volumes if "csi" in one]


def check_volume(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> None:
    """Raise ConfigError for a CSI volume that GKE's driver would refuse."""
    csi = volume["csi"]
    if csi.get("driver") != DRIVER:
        raise ConfigError(f"volume {volume['name']}: the sandbox has no CSI driver {csi.get('driver')}, only {DRIVER}")
    if (pod["metadata"].get("annotations") or {}).get(ANNOTATION) != "true":
        message = f'volume {volume["name"]}: the pod needs the annotation {ANNOTATION}: "true"'
        raise ConfigError(message)
    _bucket_volume(volume["name"], csi)


def _bucket_volume(name: str, csi: Mapping[str, Any]) -> BucketVolume:
    attributes = csi.get("volumeAttributes") or {}
    bucket = attributes.get("bucketName")
    if not bucket:
        raise ConfigError(f"volume {name}: volumeAttributes has no bucketName")
    kernel = {"ro"} if csi.get("readOnly") else set()
    flags: list[str] = []
    config: dict[str, Any] = {}
    try:
        for key, (place, read) in _ATTRIBUTES.items():
            if key in attributes:
                _put(config, place, read(attributes[key]))
    except ValueError as error:
        raise ConfigError(f"volume {name}: volumeAttributes: {error}") from error
    for option in (attributes.get("mountOptions") or "").split(","):
        key, value, of_file = _option(option)
        if not value and key in _KERNEL_FLAGS:
            kernel.add(key)
        elif key in _DROPPED:
            _LOG.warning("volume %s: the mount option %s has no effect here", name, option)
        elif of_file:
            _put(config, key, _scalar(value))
        elif key and key not in _KERNEL_DEFAULTS:
            flags.append(f"--{key}={value}" if value else f"--{key}")
    checked = attributes.get("skipCSIBucketAccessCheck") != "true"
    return BucketVolume(name, bucket, tuple(sorted(kernel)), tuple(flags), config, checked)


def _option(text: str) -> tuple[str, str, bool]:
    """Return key and value of a mount option, and whether it is one of the configuration file."""
    text = text.strip().removeprefix("o=").lstrip("-")
    key, _, value = text.partition("=")
    if ":" not in key:
        return key, value, False
    place, _, value = text.rpartition(":")
    return place, value, True


def _put(config: dict[str, Any], place: str, value: Any) -> None:
    *outer, last = place.split(":")
    for part in outer:
        config = config.setdefault(part, {})
    config[last] = value


def _scalar(text: str) -> Any:
    """Return a value of a configuration file as YAML reads it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _megabytes(text: str) -> int:
    """Return a quantity in MiB; negative for no limit."""
    return -1 if text.startswith("-") else in_units(text, _MIB)


#: Path of each volume attribute in gcsfuse's configuration file.
_ATTRIBUTES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "fileCacheCapacity": ("file-cache:max-size-mb", _megabytes),
    "fileCacheForRangeRead": ("file-cache:cache-file-for-range-read", _scalar),
    "metadataStatCacheCapacity": ("metadata-cache:stat-cache-max-size-mb", _megabytes),
    "metadataTypeCacheCapacity": ("metadata-cache:type-cache-max-size-mb", _megabytes),
    "metadataCacheTTLSeconds": ("metadata-cache:ttl-secs", int),
    "gcsfuseLoggingSeverity": ("logging:severity", str),
}
