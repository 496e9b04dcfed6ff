"""Hourly prices of machines and disks, in US dollars, from a price table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.spec.data_files import data_file
from encamp.spec.encamp import WHEN_THERE_IS_ROOM
from encamp.spec.prices import built_in_prices

if TYPE_CHECKING:
    from encamp.plan.model import Accelerator, NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.prices import HourPriceSpec, PriceTableSpec

#: Google bills disks by the month, and counts it as so many hours.
HOURS_OF_MONTH = 730.0


def price_table(environment: EnvironmentSpec) -> PriceTableSpec:
    """Return the prices that the jobs of an environment are counted by: its own, else the catalog's list prices.

    Raises:
        PlanError: its own lie in a file that was not read.
    """
    own = environment.prices
    if own is not None and own.file:
        raise PlanError("its prices were not read", where="encamp:environment.prices.file", hint="load the environment")
    return own or built_in_prices()


def machine_price(
    table: PriceTableSpec, machine_type: str, accelerator: Accelerator | None, provisioning: str = "ON_DEMAND"
) -> float | None:
    """Return the hour's price of a machine with its accelerators; None if the table lacks it.

    GPUs that are part of a machine type, and TPU chips, are in its price; attached ones are added. What is got in
    another way than on demand costs its own price where the table has one, else the full one, which it never exceeds.
    """
    part = _price(table.machines.get(machine_type), provisioning)
    if part is None or accelerator is None or has_built_in(machine_type):
        return part
    each = _price(table.gpus.get(accelerator.type), provisioning)
    return None if each is None else part + accelerator.count * each


def disk_price(table: PriceTableSpec, disk_type: str, size_gb: int) -> float | None:
    """Return the hour's price of a disk; None if the table lacks its kind."""
    found = table.disks.get(disk_type)
    return None if found is None else (found.usd_per_gb_month or 0.0) * size_gb / HOURS_OF_MONTH


def machine_text(pool: NodePoolPlan) -> str:
    """Return a machine with one price in words: ``n1-standard-8 + 2 x nvidia-tesla-t4, spot``."""
    attached = pool.accelerator if not has_built_in(pool.machine_type) else None
    text = pool.machine_type if attached is None else f"{pool.machine_type} + {attached.count} x {attached.type}"
    return f"{text}, spot" if pool.spot else text


def disk_text(pool: NodePoolPlan) -> str:
    """Return the boot disk of a pool's machines in words: ``100 GB pd-ssd``."""
    return f"{pool.disk_size_gb} GB {pool.disk_type}"


def has_built_in(machine_type: str) -> bool:
    """Whether the machine's accelerators are part of it, so that its price is theirs too."""
    return bool((data_file("machines").get(machine_type) or {"gpu": True})["gpu"])


def _price(entry: HourPriceSpec | None, provisioning: str) -> float | None:
    if entry is None:
        return None
    special: float | None = None
    if provisioning == "SPOT":
        special = entry.usd_spot_per_hour
    elif provisioning in WHEN_THERE_IS_ROOM:
        special = entry.usd_flex_start_per_hour
    return entry.usd_per_hour if special is None else special
