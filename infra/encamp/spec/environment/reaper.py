"""A reaper that an environment runs in its own cluster: what somebody writes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

DEFAULT_SCHEDULE = "*/10 * * * *"

_CRON = re.compile(r"(?:[0-9*,/-]+|[A-Za-z,-]+)(?: (?:[0-9*,/-]+|[A-Za-z,-]+)){4}")
_REMOTE = re.compile(r"(?:gs|s3|azblob|https)://\S+")
_SECRET = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_@-]*", re.IGNORECASE)


class ReaperSpec(Written):
    """A CronJob that runs ``encamp reap``."""

    image: Text = ""
    """Container image with this project, the Pulumi CLI and ``gke-gcloud-auth-plugin``; runs ``encamp``."""
    schedule: Text = DEFAULT_SCHEDULE
    """When it looks, as cron has it, in UTC."""
    backend_url: Text = ""
    """The engine's backend, such as ``gs://my-bucket``; one of the pod's own would die with it."""
    record_secret: Text = ""
    """Name of a Kubernetes Secret in the reaper's namespace. Its keys are the pod's variables: ``ENCAMP_RECORD_URL``,
    and ``PULUMI_CONFIG_PASSPHRASE`` or ``PULUMI_ACCESS_TOKEN`` where the backend needs one."""


def reaper_problems(reaper: ReaperSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Everything that is wrong with it."""
    if environment.is_sandbox:
        message = "a sandbox's backend and record are of this machine, where `encamp reap` runs without it"
        yield Found((), message, "leave it out")
    if not _IMAGE.fullmatch(reaper.image):
        example = "such as us-docker.pkg.dev/my-project/encamp/encamp:1"
        yield Found(("image",), "must be a container image", example)
    if not _CRON.fullmatch(reaper.schedule):
        message = f"{reaper.schedule!r} must have five fields, as cron has them"
        yield Found(("schedule",), message, f"such as {DEFAULT_SCHEDULE}")
    if not _REMOTE.fullmatch(reaper.backend_url):
        message = "must be a backend that outlives a pod: gs://, s3://, azblob:// or https://"
        yield Found(("backend_url",), message, "such as gs://my-bucket")
    if not _SECRET.fullmatch(reaper.record_secret):
        message = "must name a Kubernetes Secret with ENCAMP_RECORD_URL: the record has to outlive a pod"
        yield Found(("record_secret",), message)
