"""How the sandbox's storage server is started; why it is one of our own stands in docs/decisions/0020."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.sandbox.layout import Layout


def storage_argv(layout: Layout) -> list[str]:
    """The command of the storage server of a sandbox; it finds its folder by ENCAMP_SANDBOX_DIR and needs no tool."""
    del layout
    return [sys.executable, "-m", "encamp.sandbox.storage"]
