"""An environment as written: what lives long around jobs, in a stack's config file or in ``pulumi.Config``."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, Literal

from encamp.errors import Problem, SpecError, UsageError
from encamp.spec.fields import Int64, Text, Written
from encamp.spec.loading import DataPath, Document, load_document
from encamp.spec.reading import Reading, read_model
from encamp.spec.reaper import ReaperSpec, reaper_problems

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Projects of the sandbox have ids that begin so; no project of Google Cloud's is ever called like this by us.
SANDBOX_PREFIX = "sandbox-"

_LABEL = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_FORMS = {
    "project": (_PROJECT, "must be a project id, such as my-project"),
    "region": (_REGION, "must be a region, such as us-central1"),
    "artifacts_bucket": (_BUCKET, "must be a bucket name: 3 to 63 lowercase letters, digits, ., _ and -"),
    "owner": (_LABEL, "must be a label value: lowercase letters, digits, _ and -, at most 63 characters"),
} | dict.fromkeys(
    ("name", "cluster", "namespace", "network", "subnetwork", "registry"),
    (_NAME, "must be a lowercase letter, then letters, digits and -, at most 40 characters"),
)


class EnvironmentSpec(Written):
    """An environment: network, cluster, registry and the bucket that outlives jobs."""

    name: Text = ""
    """Name of the environment, on its cluster's labels."""
    project: Text = ""
    """Project id; the stack's ``gcp:project``."""
    region: Text = ""
    """Region of cluster, buckets and registry."""
    zones: tuple[Text, ...] = ()
    """Zones for nodes; the region's own choice when empty."""
    artifacts_bucket: Text = ""
    """Bucket of results, logs and receipts."""
    artifacts_retention_days: Int64 | None = None
    """Results are deleted after this many days; kept when absent."""
    owner: Text = "encamp"
    """Who pays and who may reap: the owner label on everything."""
    cluster: Text = "encamp"
    """Name of the GKE cluster."""
    namespace: Text = "encamp-jobs"
    """Kubernetes namespace of the jobs."""
    network: Text = "encamp"
    """Name of the VPC network."""
    subnetwork: Text = "encamp"
    """Name of the subnetwork."""
    subnetwork_cidr: Text = "10.10.0.0/20"
    """Addresses of the nodes."""
    pods_cidr: Text = "10.20.0.0/14"
    """Addresses of the pods."""
    services_cidr: Text = "10.30.0.0/20"
    """Addresses of the services."""
    registry: Text = "encamp"
    """Name of the Artifact Registry repository."""
    runtime_images: dict[Text, Text] | None = None
    """Container images by runtime version, such as ``"2.11"``; they win over the built-in table."""
    reaper: ReaperSpec | None = None
    """A reaper in the environment's own cluster; none when absent."""
    other_regions: Literal["refuse", "stand-in"] | None = None
    """What becomes of a job of another region: refused, or run here with a warning. The sandbox stands in for every
    region unless it is told to refuse; elsewhere jobs are refused."""

    @property
    def stands_in(self) -> bool:
        """Whether a job of another region is run here."""
        choice = self.other_regions or ("stand-in" if self.project.startswith(SANDBOX_PREFIX) else "refuse")
        return choice == "stand-in"


def load_environment(name: str, repository: Path) -> EnvironmentSpec:
    """The environment of the stack config ``stacks/Pulumi.<name>.yaml``.

    Raises:
        UsageError: there is no such stack config.
        SpecError: everything that is wrong with it.
    """
    known = sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in (repository / "stacks").glob("Pulumi.*.yaml"))
    if name not in known:
        listed = ", ".join(known) or "none"
        raise UsageError(f"there is no environment {name!r}", where="stacks/", hint=f"known stacks: {listed}")
    relative = f"stacks/Pulumi.{name}.yaml"
    document = load_document(repository / relative, source=relative)
    config = document.data.get("config")
    if not isinstance(config, dict) or "encamp:environment" not in config:
        message = "holds no `encamp:environment`: it is not the stack of an environment"
        raise SpecError(relative, [Problem("config", document.line(("config",)), None, message)])
    at = ("config", "encamp:environment")
    return read_environment(document, config["encamp:environment"], prefix=at, project=config.get("gcp:project"))


def parse_environment(data: Mapping[str, Any], *, project: str | None, source: str) -> EnvironmentSpec:
    """An environment of plain data; see :func:`load_environment`."""
    return read_environment(Document(source, dict(data)), data, prefix=(), project=project)


def read_environment(document: Document, data: Any, *, prefix: DataPath, project: Any) -> EnvironmentSpec:
    """An environment that stands somewhere in a document.

    Args:
        document: where it stands.
        data: its mapping.
        prefix: path of the mapping in the document.
        project: the stack's project, used when the environment names none.

    Raises:
        SpecError: everything that is wrong with it.
    """
    reading = Reading(document)
    spec = read_model(EnvironmentSpec, data, reading, prefix=prefix)
    if not spec.project and isinstance(project, str):
        spec = spec.model_copy(update={"project": project})
    for name, (form, message) in _FORMS.items():
        value: str = getattr(spec, name)
        if not form.fullmatch(value) and not reading.is_broken((name,)):
            hint = "set gcp:project" if name == "project" else None
            reading.report(reading.spelled((name,), EnvironmentSpec), f"{value!r} {message}", hint=hint)
    _check_networks(spec, reading)
    _check_reaper(spec, reading)
    if reading.problems:
        raise SpecError(document.source, reading.problems)
    return spec


def _check_reaper(spec: EnvironmentSpec, reading: Reading) -> None:
    if spec.reaper is None:
        return
    if spec.project.startswith(SANDBOX_PREFIX):
        message = "a sandbox's backend and record are of this machine, where `encamp reap` runs without it"
        reading.report(reading.spelled(("reaper",), EnvironmentSpec), message, hint="leave it out")
    for name, message, hint in reaper_problems(spec.reaper):
        if not reading.is_broken(("reaper", name)):
            reading.report(reading.spelled(("reaper", name), EnvironmentSpec), message, hint=hint)


def _check_networks(spec: EnvironmentSpec, reading: Reading) -> None:
    for name in ("subnetwork_cidr", "pods_cidr", "services_cidr"):
        try:
            ipaddress.IPv4Network(getattr(spec, name))
        except ValueError as error:
            reading.report(reading.spelled((name,), EnvironmentSpec), f"is no range of IPv4 addresses: {error}")
    for zone in spec.zones:
        if not zone.startswith(f"{spec.region}-"):
            path = reading.spelled(("zones",), EnvironmentSpec)
            reading.report(path, f"{zone!r} is no zone of {spec.region}", hint=f"such as {spec.region}-a")
    days = spec.artifacts_retention_days
    if days is not None and days < 1:
        path = reading.spelled(("artifacts_retention_days",), EnvironmentSpec)
        reading.report(path, f"{days} must be at least 1")
