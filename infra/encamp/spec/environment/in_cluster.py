"""Fields shared by all blocks that run encamp in the environment's cluster: image, backend and record secret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_REMOTE = re.compile(r"(?:gs|s3|azblob|https)://\S+")
#: Names of Secrets.
SECRET = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_@-]*", re.IGNORECASE)
_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")


class InClusterSpec(Written):
    """Pods of the cluster that run ``encamp``."""

    image: Text = ""
    """Container image with this project, the Pulumi CLI and ``gke-gcloud-auth-plugin``, by digest or exact tag; runs
    ``encamp``."""
    backend_url: Text = ""
    """The engine's backend, such as ``gs://my-bucket``; one of the pod's own would die with it."""
    record_secret: Text = ""
    """Name of a Kubernetes Secret in the pods' namespace. Its keys are their variables: ``ENCAMP_RECORD_URL``, and
    ``PULUMI_CONFIG_PASSPHRASE`` or ``PULUMI_ACCESS_TOKEN`` where the backend needs one."""


def image_problems(image: str) -> Iterator[Found]:
    """Yield every problem of an image that runs with encamp's own rights: it has to say exactly what runs."""
    example = "such as us-docker.pkg.dev/my-project/encamp/encamp:1; `encamp containerfile --encamp` builds it"
    if not _IMAGE.fullmatch(image):
        yield Found(("image",), "must be a container image", example)
    elif not _DIGEST.fullmatch(image) and _tag(image) in {"", "latest"}:
        message = "must be an image by digest or exact tag: without, whoever pushes next decides what runs here"
        yield Found(("image",), message, example)


def _tag(image: str) -> str:
    """Return the tag of an image, empty if it has none; the port of a registry is no tag."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[2]


def in_cluster_problems(block: InClusterSpec, environment: EnvironmentSpec, *, instead: str) -> Iterator[Found]:
    """Yield every problem of the block; ``instead`` is what does the same on this machine."""
    if environment.is_sandbox:
        message = f"a sandbox's backend and record are of this machine, where {instead} runs without it"
        yield Found((), message, "leave it out")
    yield from image_problems(block.image)
    if not _REMOTE.fullmatch(block.backend_url):
        message = "must be a backend that outlives a pod: gs://, s3://, azblob:// or https://"
        yield Found(("backend_url",), message, "such as gs://my-bucket")
    if not SECRET.fullmatch(block.record_secret):
        message = "must name a Kubernetes Secret with ENCAMP_RECORD_URL: the record has to outlive a pod"
        yield Found(("record_secret",), message)
