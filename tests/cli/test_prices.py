from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from encamp.cli.main import cli
from encamp.spec.prices import built_in_prices, load_prices

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_printed_is_a_table_that_an_environment_can_name(tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["prices"], catch_exceptions=False).output
    file = tmp_path / "prices.json"
    file.write_text(printed)
    assert load_prices(file) == built_in_prices()
    assert json.loads(printed)["machines"]["n1-standard-4"]["usdPerHour"] == 0.189999
