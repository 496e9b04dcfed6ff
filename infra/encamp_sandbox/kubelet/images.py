"""Refusal of containers that the process runtime cannot run: those that run what their image holds.

Containers are processes of this machine here, without images. A replica with a set-up of encamp's brings all that it
runs; one that is annotated as running its image would run something else, or nothing. Controllers that an environment
installs run: the sandbox has built them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from encamp_sandbox.tools.catalog import TOOLS, build_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Set by encamp on pods whose image brings the program.
ANNOTATION = "encamp.dev/runs-image"
REASON = "ContainerRuntimeMissing"
#: The shell's code for a command that cannot be executed; permanent, so that nobody tries again.
EXIT_CODE = 126
#: Images of which the sandbox has the one program, and the tool that it is.
_PROGRAMS = {"registry.k8s.io/jobset/jobset": "jobset", "registry.k8s.io/kueue/kueue": "kueue"}
_BUILT_IN = re.compile(r"(^|/)cloud-ml-algos/([^:@/]+)")


def refusal(pod: Mapping[str, Any]) -> str | None:
    """Return why a pod is not started; None if it can be."""
    if (pod["metadata"].get("annotations") or {}).get(ANNOTATION) != "true":
        return None
    image = pod["spec"]["containers"][0].get("image", "")
    if found := _BUILT_IN.search(image):
        return (
            f"{image} is the built-in algorithm {found[2]} of AI Platform: its image is no longer published, and "
            "encamp brings no replacement of it yet. Train with code of your own: give packageUris and pythonModule "
            "with a runtimeVersion"
        )
    return (
        f"{image} is a custom container, and this sandbox runs processes, not images. Run the job on GKE, or give "
        "packageUris and pythonModule, beside the image or with a runtimeVersion: they run here"
    )


def program(image: str) -> Path | None:
    """Return the program that replaces the command of an image that consists of one program; None for others."""
    repository = image.partition("@")[0]
    name = _PROGRAMS.get(repository[: repository.rfind(":")] if ":" in repository else repository)
    return build_folder(TOOLS[name]) / name if name is not None else None
