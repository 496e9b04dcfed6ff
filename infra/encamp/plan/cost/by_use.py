"""Costs by use: results and their old versions, logs beside the stored ones, audit logs.

No plan knows how much that will be, so prices and an example are told, and the setting that each depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.environment.parts import has_job_logs, keeps_versions
from encamp.spec.environment.storage import StorageSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.model import StoragePlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.prices import PriceTableSpec

#: Entries of the table of prices.
STORAGE, LOGGING = "standard-storage", "cloud-logging"
#: The example: a checkpoint of so many GB, so many times a day (every ten minutes), for a month of so many days.
_GB, _TIMES_A_DAY, _DAYS = 10, 144, 30
#: GiB that Cloud Logging ingests for a project without charge each month (logging-free-volume).
_FREE_GIB = 50


@dataclass(frozen=True)
class UseCost:
    """A cost that depends on use.

    Attributes:
        what: it, and the setting that it depends on, in words.
        usd: the price of one GB, None if the table has none or nothing is paid.
    """

    what: str
    usd: float | None


def use_costs(spec: EnvironmentSpec, table: PriceTableSpec) -> tuple[UseCost, ...]:
    """List what an environment pays by use, beside machines and traffic."""
    return (*_storage(spec, table), _logs(spec, table), *_audit(spec, table))


def job_use_costs(spec: EnvironmentSpec, placed: StoragePlan, table: PriceTableSpec) -> tuple[UseCost, ...]:
    """List costs by use that depend on what a job writes."""
    bucket = (placed.job_dir or "").removeprefix("gs://").partition("/")[0]
    if bucket == placed.bucket:
        found = tuple(_storage(spec, table))
    elif bucket and bucket == placed.results_bucket:
        found = (_kept(bucket, _price(table, STORAGE)), _gone(placed.soft_delete_days))
    else:
        found = (UseCost(f"results in gs://{bucket}: as that bucket is set up", None),) if bucket else ()
    return (*found, _logs(spec, table))


def old_gigabytes_usd(spec: EnvironmentSpec, table: PriceTableSpec, days: int) -> float | None:
    """Return the additional monthly cost of the example, if each checkpoint is deleted soon and stays for ``days``."""
    price = _price(table, STORAGE)
    kept = days + (spec.storage or StorageSpec()).soft_delete_days
    return None if price is None else round(_GB * _TIMES_A_DAY * min(kept, _DAYS) * price, 2)


def _storage(spec: EnvironmentSpec, table: PriceTableSpec) -> Iterator[UseCost]:
    storage, price = spec.storage or StorageSpec(), _price(table, STORAGE)
    yield _kept(spec.artifacts_bucket, price)
    if "artifactsBucket" in spec.adopt:
        yield UseCost("what is overwritten or deleted there: as that bucket is set up", None)
    elif not keeps_versions(spec):
        yield _gone(storage.soft_delete_days)
    else:
        days, short = storage.keep_old_versions_days, storage.keep_old_checkpoints_days
        of_checkpoints, of_others = (_usd(old_gigabytes_usd(spec, table, each)) for each in (short, days))
        text = (
            f"what is overwritten or deleted there stays {days} d, checkpoints {short} d (storage.keepOldVersionsDays,"
            f" keepOldCheckpointsDays): {_GB} GB every 10 min cost {of_checkpoints} a month more as checkpoints,"
            f" {of_others} as other files"
        )
        yield UseCost(text, price)


def _kept(bucket: str, price: float | None) -> UseCost:
    return UseCost(f"results in gs://{bucket}: {_usd(price)} a GB and month", price)


def _gone(days: int) -> UseCost:
    kept = f"can be restored for {days} d, at the same price" if days else "is gone"
    return UseCost(f"what is overwritten or deleted there {kept} (storage.softDeleteDays)", None)


def _logs(spec: EnvironmentSpec, table: PriceTableSpec) -> UseCost:
    if not has_job_logs(spec):
        return UseCost("logs of jobs: stored with the results, and kept out of Cloud Logging (gke.jobLogs)", None)
    price = _price(table, LOGGING)
    return UseCost(f"logs of jobs in Cloud Logging, beside the stored ones (gke.jobLogs): {_taken_in(price)}", price)


def _audit(spec: EnvironmentSpec, table: PriceTableSpec) -> Iterator[UseCost]:
    audit = spec.access.audit if spec.access is not None else None
    if audit is None or not audit.data_access:
        return
    price = _price(table, LOGGING)
    whose = "all reads and writes of data" if audit.data_reads else "settings, not of data"
    yield UseCost(f"Data Access logs of {whose} (access.audit.dataReads): {_taken_in(price)}", price)


def _taken_in(price: float | None) -> str:
    return f"{_usd(price)} a GiB beyond the project's first {_FREE_GIB} a month"


def _price(table: PriceTableSpec, name: str) -> float | None:
    entry = table.volumes.get(name)
    return None if entry is None else entry.usd_per_gb


def _usd(amount: float | None) -> str:
    return "an unknown price" if amount is None else f"{amount:.2f} USD"
