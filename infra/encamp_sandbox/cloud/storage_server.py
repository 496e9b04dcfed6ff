"""The start of the sandbox's storage server; docs/decisions/0020 says why it is our own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout


def storage_argv(layout: Layout) -> list[str]:
    """Return the command of the storage server of a sandbox.

    It finds its folder by ENCAMP_SANDBOX_DIR and needs no tool.
    """
    del layout
    return [sys.executable, "-m", "encamp_sandbox.storage"]
