"""The stand-in for encamp's own image in a pod: project, encamp and engine of the sandbox, at the image's paths.

``templates/encamp.Containerfile.j2`` says what the image holds. Its provider plugins have no stand-in: the sandbox's
providers are servers of this machine, which a pod does not reach. A reaper looks, and ends no job that has a stack.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.project import FILE, STACKS, find_project
from encamp.resources import repository
from encamp_sandbox.tools.catalog import TOOLS, build_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: WORKDIR of the image, where its user may write.
FOLDER = "/encamp"
#: Where a checkout is in the image, when the project is another folder.
_CHECKOUT = ".checkout"
_IMAGE = re.compile(r"/encamp(:[^/@]+)?(@[^/]+)?$")
#: Folders of encamp's checkout in the image, where encamp runs from one. A project's program is in ``infra``, too.
_SOURCES = ("infra", "templates")


@dataclass(frozen=True)
class OwnImage:
    """Variables and mounts of a container, and folders of programs that come first in its PATH."""

    env: Mapping[str, str]
    mounts: Sequence[dict[str, Any]]
    path: Sequence[str]
    folder: str = FOLDER


def own_image(image: str, folder: Path) -> OwnImage | None:
    """Make the stand-in for encamp's image; None for other images, and where there is no project.

    Args:
        image: name of a container's image.
        folder: of the pod, for its own copies.
    """
    project, checkout = find_project(), repository()
    if project is None or not _IMAGE.search(image):
        return None
    read = {name: project / name for name in _SOURCES if (project / name).is_dir()}
    package = FOLDER
    if checkout is not None and checkout != project:
        read |= {f"{_CHECKOUT}/{name}": checkout / name for name in _SOURCES}
        package = f"{FOLDER}/{_CHECKOUT}"
    for name in read:  # places to mount them on
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy2(project / FILE, folder / FILE)
    # A copy: the engine writes there.
    shutil.copytree(project / STACKS, folder / STACKS, dirs_exist_ok=True)
    environment = folder / ".venv"
    if not environment.is_symlink():
        environment.symlink_to(sys.prefix)
    mounts = [{"source": str(source), "target": f"{FOLDER}/{name}", "read_only": True} for name, source in read.items()]
    return OwnImage(
        env={"PYTHONPATH": f"{package}/infra", "PYTHONDONTWRITEBYTECODE": "1", "PULUMI_SKIP_UPDATE_CHECK": "true"},
        mounts=[{"source": str(folder), "target": FOLDER, "read_only": False}, *mounts],
        path=[str(build_folder(TOOLS["pulumi"]))],
    )
