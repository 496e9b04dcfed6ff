"""Zones of a pool's nodes: those where Google has the machine and the job or the environment wants it.

A pool whose machines are in some zones of a region only must say so: GKE refuses a pool with a zone that lacks them.
What cannot be is left open here and refused by :mod:`encamp.plan.machines.preconditions`, which sees all pools at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.machines import catalog

if TYPE_CHECKING:
    from encamp.plan.machines.shapes import Shape
    from encamp.spec.environment import EnvironmentSpec


@dataclass(frozen=True)
class PlaceRequest:
    """A job's request for a pool's place: one zone by name, one zone of any name, a zone with flex-start."""

    zone: str | None
    one: bool
    flex_start: bool


@dataclass(frozen=True)
class Place:
    """The zones of a pool's nodes.

    Attributes:
        zones: empty for the cluster's own.
        warnings: what stands in for what, and what is not known to work.
    """

    zones: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def zone(self) -> str | None:
        """The one zone, None if there are several, or any."""
        return self.zones[0] if len(self.zones) == 1 else None


def place(shape: Shape, request: PlaceRequest, environment: EnvironmentSpec) -> Place:
    """Return the zones of a pool."""
    everywhere = offered(shape)
    here = _in_region(everywhere or (), environment.region)
    stands_in = everywhere is not None and not here and environment.stands_in
    warnings: list[str] = []
    if stands_in and shape.tpu_version is not None:
        warnings.append(_stand_in(shape, everywhere or (), _first(environment)))
    if request.zone is not None:
        if request.zone.startswith(f"{environment.region}-"):
            return Place((request.zone,), tuple(warnings))
        return Place((_first(environment),), (f"{_first(environment)} stands in for {request.zone}",))
    if stands_in or everywhere is None:
        alone = stands_in and shape.tpu_version is not None
        found = (_first(environment),) if alone else environment.zones if request.one else ()
        return Place(found, tuple(warnings))
    preferred = tuple(zone for zone in here if zone in environment.zones) or here
    if shape.tpu_version is not None:
        preferred, said = _of_tpu(shape.tpu_version, preferred, here, request)
        warnings += said
    return Place(preferred, tuple(warnings))


def offered(shape: Shape) -> tuple[str, ...] | None:
    """Return every zone that has the machine, None if nothing is known of it. Most have those without accelerators."""
    if shape.tpu_version is not None:
        return catalog.tpu_zones(shape.tpu_version)
    return catalog.gpu_zones(shape.machine_type)


def _of_tpu(
    version: str, preferred: tuple[str, ...], here: tuple[str, ...], request: PlaceRequest
) -> tuple[tuple[str, ...], list[str]]:
    """Return the one zone of a TPU; with flex-start one that is known to have it so, where the region has one."""
    known = catalog.flex_start_zones(version) if request.flex_start else here
    fitting = [zone for zone in (*preferred, *here) if zone in known]
    if fitting:
        return (fitting[0],), []
    if not preferred:
        return (), []
    listed = f"it is said to be in {', '.join(known)}" if known else "no zone is known to"
    return (preferred[0],), [f"whether {preferred[0]} gives TPU {version} by flex-start is not known; {listed}"]


def _in_region(zones: tuple[str, ...], region: str) -> tuple[str, ...]:
    return tuple(zone for zone in zones if zone.startswith(f"{region}-"))


def _first(environment: EnvironmentSpec) -> str:
    return environment.zones[0] if environment.zones else f"{environment.region}-a"


def _stand_in(shape: Shape, everywhere: tuple[str, ...], zone: str) -> str:
    regions = ", ".join(sorted({each.rpartition("-")[0] for each in everywhere}))
    return f"TPU {shape.tpu_version} is in {regions}; {zone} of the environment stands in for their zones"
