"""The rules of an environment: its own fields here, each block's in the block's own file."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from encamp.spec.environment.access import access_problems
from encamp.spec.environment.api import api_problems
from encamp.spec.environment.budget import budget_problems
from encamp.spec.environment.driver import driver_problems
from encamp.spec.environment.encryption import encryption_problems
from encamp.spec.environment.gke import gke_problems
from encamp.spec.environment.monitoring import monitoring_problems
from encamp.spec.environment.notices import notices_problems
from encamp.spec.environment.policy import policy_problems
from encamp.spec.environment.prices import prices_problems
from encamp.spec.environment.queues import controllers_problems, queues_problems
from encamp.spec.environment.reaper import reaper_problems
from encamp.spec.environment.storage import storage_problems
from encamp.spec.environment.vpc import vpc_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from encamp.spec.environment.model import Adoptable, EnvironmentSpec
    from encamp.spec.environment.problems import Found
    from encamp.spec.loading import DataPath

#: Rules by block: the block's field in the environment, and its check, called only if the block is written.
BLOCKS: Mapping[str, Callable[[Any, EnvironmentSpec], Iterable[Found]]] = {
    "access": access_problems,
    "api": api_problems,
    "budget": budget_problems,
    "driver": driver_problems,
    "encryption": encryption_problems,
    "gke": gke_problems,
    "monitoring": monitoring_problems,
    "notices": notices_problems,
    "policy": policy_problems,
    "prices": prices_problems,
    "controllers": controllers_problems,
    "queues": queues_problems,
    "reaper": reaper_problems,
    "storage": storage_problems,
    "vpc": vpc_problems,
}

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


def environment_problems(spec: EnvironmentSpec) -> Iterator[tuple[DataPath, str, str | None]]:
    """Yield every problem of the block: the path in field names, what is wrong, and what to try."""
    for name, (form, message) in _FORMS.items():
        value: str = getattr(spec, name)
        if not form.fullmatch(value):
            yield (name,), f"{value!r} {message}", "set gcp:project" if name == "project" else None
    yield from _networks(spec)
    yield from _adopted(spec)
    days = spec.artifacts_retention_days
    if days is not None and days < 1:
        yield ("artifacts_retention_days",), f"{days} must be at least 1", None
    for name, problems in BLOCKS.items():
        block = getattr(spec, name)
        if block is not None:
            for found in problems(block, spec):
                yield (name, *found.path), found.message, found.hint


def _networks(spec: EnvironmentSpec) -> Iterator[tuple[DataPath, str, str | None]]:
    ranges: dict[str, ipaddress.IPv4Network] = {}
    for name in ("subnetwork_cidr", "pods_cidr", "services_cidr"):
        try:
            mine = ipaddress.IPv4Network(getattr(spec, name))
        except ValueError as error:
            yield (name,), f"is no range of IPv4 addresses: {error}", None
            continue
        for other, taken in ranges.items():
            if mine.overlaps(taken):
                message = f"{mine} shares addresses with {taken}, which is {to_camel(other)}"
                yield (name,), message, "Google takes ranges of a subnetwork that share none"
        ranges[name] = mine
    for index, text in enumerate(spec.job_egress):
        try:
            ipaddress.IPv4Network(text)
        except ValueError as error:
            yield ("job_egress", index), f"is no range of IPv4 addresses: {error}", "such as 10.4.0.0/16"
    for zone in spec.zones:
        if not zone.startswith(f"{spec.region}-"):
            yield ("zones",), f"{zone!r} is no zone of {spec.region}", f"such as {spec.region}-a"


def _adopted(spec: EnvironmentSpec) -> Iterator[tuple[DataPath, str, str | None]]:
    """Yield fields that configure an adopted resource, which is used as it is."""
    if len(set(spec.adopt)) != len(spec.adopt):
        yield ("adopt",), "names something twice", None
    if {"network", "cluster"} <= set(spec.adopt):
        yield ("adopt",), "an adopted cluster has its network already", "write adopt: [cluster]"
    ranges = ("subnetwork_cidr", "pods_cidr", "services_cidr")
    of: Mapping[Adoptable, tuple[str, ...]] = {
        "artifactsBucket": ("artifacts_retention_days",),
        "cluster": ("network", "subnetwork", "zones", *ranges),
        "network": ranges,
    }
    for what, names in of.items():
        if what in spec.adopt:
            for name in sorted(set(names) & spec.model_fields_set):
                yield (name,), f"is of something that is made, and this environment adopts its {what}", "leave it out"
