"""The table of prices that costs are counted by: the catalog's own, or a file of its form that an environment names.

A file replaces the whole table: what it does not name has no price. `encamp prices` prints the one in effect.
"""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from pydantic import Field

from encamp.spec.data_files import data_file
from encamp.spec.fields import Double, Text, Written
from encamp.spec.loading import Document, load_document
from encamp.spec.reading import Reading, read_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.spec.loading import DataPath


class HourPriceSpec(Written):
    """The hourly price of a machine, or of one attached GPU."""

    usd_per_hour: Double | None = None
    """US dollars for an hour."""
    usd_spot_per_hour: Double | None = None
    """The same as a spot machine; it counts at the full price where this is absent."""
    usd_flex_start_per_hour: Double | None = None
    """The same as a machine that starts when there is room (flex-start and queued); the full price where absent."""
    source: Text = ""
    """Source of the price."""


class DiskPriceSpec(Written):
    """The price of a boot disk."""

    usd_per_gb_month: Double | None = None
    """US dollars for a GB (2^30 bytes) and a month of 730 hours."""
    source: Text = ""
    """Source of the price."""


class VolumePriceSpec(Written):
    """A price by volume."""

    usd_per_gb: Double | None = None
    """US dollars for a GB (2^30 bytes): a month of storage, or one ingestion of logs."""
    source: Text = ""
    """Source of the price."""


class PriceTableSpec(Written):
    """Prices of one region in US dollars."""

    date: Text = ""
    """Day of the prices, such as ``2026-07-30``."""
    region: Text = ""
    """Region of the prices."""
    source: Text = ""
    """Source of the prices and what they leave out, in a few words."""
    machines: dict[Text, HourPriceSpec] = Field(default_factory=dict)
    """By machine type; GPUs and TPU chips that are part of a machine are in its price."""
    gpus: dict[Text, HourPriceSpec] = Field(default_factory=dict)
    """By GKE's name of the attached GPU."""
    disks: dict[Text, DiskPriceSpec] = Field(default_factory=dict)
    """By kind of disk."""
    services: dict[Text, HourPriceSpec] = Field(default_factory=dict)
    """Resources that an environment pays for without jobs: ``gke-cluster`` and ``nat-gateway``."""
    volumes: dict[Text, VolumePriceSpec] = Field(default_factory=dict)
    """Prices by volume: ``standard-storage``, a GB of results and month, and ``cloud-logging``, a GiB that comes in."""


@cache
def built_in_prices() -> PriceTableSpec:
    """Return the catalog's own: list prices."""
    return PriceTableSpec.model_validate(data_file("prices"))


def load_prices(path: Path, *, source: str | None = None) -> PriceTableSpec:
    """Read a table of prices from YAML or JSON.

    Raises:
        UsageError: there is no such file.
        SpecError: everything that is wrong with it.
    """
    return read_prices(load_document(path, source=source))


def read_prices(document: Document) -> PriceTableSpec:
    """Return a table of prices that is a document by itself; see :func:`load_prices`."""
    reading = Reading(document)
    table = read_model(PriceTableSpec, document.data, reading)
    reading.check(PriceTableSpec, price_problems(table))
    return table


def price_problems(table: PriceTableSpec) -> Iterator[tuple[DataPath, str, str | None]]:
    """Yield every problem of a table: the path in field names, what is wrong, and what to try."""
    try:
        date.fromisoformat(table.date)
    except ValueError:
        yield ("date",), f"{table.date!r} must be a day", "such as 2026-07-30"
    for name in ("region", "source"):
        if not getattr(table, name):
            yield (name,), "is missing: every cost names whose prices it is counted by", None
    hours = {"machines": table.machines, "gpus": table.gpus, "services": table.services}
    for kind, entries in hours.items():
        for name, entry in entries.items():
            for field in ("usd_per_hour", "usd_spot_per_hour", "usd_flex_start_per_hour"):
                yield from _amount((kind, name, field), getattr(entry, field), required=field == "usd_per_hour")
    for name, volume in table.volumes.items():
        yield from _amount(("volumes", name, "usd_per_gb"), volume.usd_per_gb, required=True)
    for name, disk in table.disks.items():
        yield from _amount(("disks", name, "usd_per_gb_month"), disk.usd_per_gb_month, required=True)


def _amount(path: DataPath, value: float | None, *, required: bool) -> Iterator[tuple[DataPath, str, str | None]]:
    if value is None and required:
        yield path, "is missing", "leave the whole entry out where no price is known"
    elif value is not None and (value < 0 or not math.isfinite(value)):
        yield path, f"{value} must not be negative", None
