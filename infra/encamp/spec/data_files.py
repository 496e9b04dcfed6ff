"""The tables that rules and plans are made from: JSON in ``spec/data``, read when first asked for.

One catalog: what AI Platform Training took (``ai_platform``, ``tiers``), what Google Cloud offers today (``machines``,
``gpus``, ``tpus``, ``regions``), what stands for what is gone, images and prices. Each entry has its source in words;
``unverified`` says that none confirmed it. Correct facts there, nowhere else.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data"


@cache
def data_file(name: str) -> dict[str, Any]:
    """Return a table by its file's name without ``.json``; callers do not change it."""
    data: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_bytes())
    return data
