"""List prices of machines in us-central1, in US dollars an hour, as the catalog has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import Accelerator


def hourly_price(machine_type: str, accelerator: Accelerator | None, *, spot: bool) -> float | None:
    """List price of an hour of a machine with its accelerators in us-central1, in USD; None where none is known.

    A spot machine of which only the other price is known costs at most that.
    """
    part = _machine_price(machine_type, spot=spot)
    if part is None or accelerator is None or has_built_in(machine_type):
        return part
    attached = next((entry for entry in data_file("gpus").values() if entry["gke"] == accelerator.type), {})
    each = _price(attached, spot=spot)
    return None if each is None else part + accelerator.count * each


def has_built_in(machine_type: str) -> bool:
    """Whether the machine's accelerators are part of it, so that its price is theirs too."""
    return bool((data_file("machines").get(machine_type) or {"gpu": True})["gpu"])


def _machine_price(machine_type: str, *, spot: bool) -> float | None:
    entry = data_file("machines").get(machine_type)
    hosts = (kind["machines"].get(machine_type) for kind in data_file("tpus").values())
    return _price(entry or next((host for host in hosts if host), {}), spot=spot)


def _price(entry: Mapping[str, Any], *, spot: bool) -> float | None:
    listed: float | None = entry.get("usdPerHour")
    return (entry.get("usdSpotPerHour") or listed) if spot else listed
