"""What stands for encamp's own image in a pod: the checkout of the sandbox and its engine, at the image's places.

``templates/encamp.Containerfile.j2`` says what the image holds. Its provider plugins have no stand-in: the sandbox's
providers are servers of this machine, which a pod does not reach. A reaper looks, and ends no job that has a stack.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.resources import repository
from encamp.sandbox.tools.catalog import TOOLS, build_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: WORKDIR of the image, where its user may write.
FOLDER = "/encamp"
_IMAGE = re.compile(r"/encamp(:[^/@]+)?(@[^/]+)?$")
#: Folders of the checkout in the image; ``stacks`` is a copy, since the engine writes there.
_READ, _COPIED = ("infra", "templates"), ("stacks",)


@dataclass(frozen=True)
class OwnImage:
    """Variables and mounts of a container, and folders of programs that come first in its PATH."""

    env: Mapping[str, str]
    mounts: Sequence[dict[str, Any]]
    path: Sequence[str]
    folder: str = FOLDER


def own_image(image: str, folder: Path) -> OwnImage | None:
    """Make the stand-in for encamp's image; None for other images, and where encamp runs from no checkout.

    Args:
        image: name of a container's image.
        folder: of the pod, for its own copies.
    """
    checkout = repository()
    if checkout is None or not _IMAGE.search(image):
        return None
    for name in _READ:  # places to mount them on
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy2(checkout / "Pulumi.yaml", folder / "Pulumi.yaml")
    for name in _COPIED:
        shutil.copytree(checkout / name, folder / name, dirs_exist_ok=True)
    environment = folder / ".venv"
    if not environment.is_symlink():
        environment.symlink_to(sys.prefix)
    read = [{"source": str(checkout / name), "target": f"{FOLDER}/{name}", "read_only": True} for name in _READ]
    return OwnImage(
        env={"PYTHONPATH": f"{FOLDER}/infra", "PYTHONDONTWRITEBYTECODE": "1", "PULUMI_SKIP_UPDATE_CHECK": "true"},
        mounts=[{"source": str(folder), "target": FOLDER, "read_only": False}, *read],
        path=[str(build_folder(TOOLS["pulumi"]))],
    )
