"""The ``prices`` block of an environment: its own prices in place of the catalog's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found, file_problem
from encamp.spec.fields import Text  # noqa: TC001 - pydantic reads it
from encamp.spec.prices import PriceTableSpec, price_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec


class PricesSpec(PriceTableSpec):
    """The prices that costs and budgets are counted by: in a file, or written here."""

    file: Text = ""
    """A table of prices in YAML or JSON, relative to the project's folder; `encamp prices` prints one to begin with."""

    @property
    def is_read(self) -> bool:
        """Whether the table is here; one in a file is read when the environment is loaded."""
        return bool(self.machines or self.gpus or self.disks)


def prices_problems(prices: PricesSpec, environment: EnvironmentSpec) -> Iterator[Found]:  # noqa: ARG001 - as all blocks
    """Yield every problem of the block."""
    if not prices.file:
        for path, message, hint in price_problems(prices):
            yield Found(path, message, hint)
        return
    yield from file_problem(prices.file)
    if beside := sorted(prices.model_fields_set - {"file"}):
        yield Found((beside[0],), "is written beside a file, which holds the whole table", "leave out one of the two")
