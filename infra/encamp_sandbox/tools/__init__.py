"""The Go tools that the sandbox is made of: found in one cache, or built from their pinned modules.

``tools/<tool>/go.mod`` and ``go.sum`` pin each tool with all that it needs. A build lies in
``<cache>/tools/<tool>/<key>/``, where the key is a hash of all that decides the outcome, so that several
checkouts share one cache and an upgrade never meets an old binary. Nothing is downloaded but Go modules, by the
``go`` command as this machine has configured it.
"""

from __future__ import annotations

from encamp_sandbox.tools.build import BuildProgress, ensure, ensure_one
from encamp_sandbox.tools.catalog import TOOLS, Tool, cache_folder, installed, manifest_files, missing
from encamp_sandbox.tools.progress import BuildLines

__all__ = [
    "TOOLS",
    "BuildLines",
    "BuildProgress",
    "Tool",
    "cache_folder",
    "ensure",
    "ensure_one",
    "installed",
    "manifest_files",
    "missing",
]
