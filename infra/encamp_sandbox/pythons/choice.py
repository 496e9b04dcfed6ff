"""The choice of a Python environment for an image in the sandbox, and its differences from the image.

Environments of known images hold what the image holds, and what today's TensorFlow needs beside that. A job's
requirements are shown too where the sandbox's own Python has them: a replica would else download them at every start.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.plan.image_contents import image_contents
from encamp.spec.distributions import normal_name
from encamp_sandbox.pythons.installed import closure, fulfilled, installed, matching, version_here
from encamp_sandbox.pythons.interpreters import obstacle
from encamp_sandbox.pythons.pulled import pulled
from encamp_sandbox.pythons.view import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.image_contents import ImageContents

#: Folders of this machine that every container sees.
_SEEN = ("/usr", "/opt", "/nix")
_FRAMEWORK = "tensorflow"


@dataclass(frozen=True)
class ImagePython:
    """An environment that stands for an image.

    Attributes:
        programs: folder of its programs, ``python3`` among them.
        mounts: what a container needs of this machine for it, as the kubelet's mounts.
    """

    programs: Path
    mounts: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class ShownDistributions:
    """The distributions of the sandbox's own Python that a view shows for an image.

    Attributes:
        names: what is shown.
        lacking: distributions that pip installed in the image and that are not installed here.
        beyond: distributions that the image lacks, which what is shown needs.
    """

    names: frozenset[str]
    lacking: tuple[str, ...]
    beyond: tuple[str, ...]


def image_python(image: str, requirements: Sequence[str] = ()) -> ImagePython | None:
    """Return the environment for an image; None if the image is unknown, whose stand-in is the sandbox's Python.

    Args:
        image: its name and tag.
        requirements: what is to be installed besides.

    Raises:
        SandboxError: the cache of environments cannot be written to.
    """
    contents = image_contents(image)
    if contents is None:
        return None
    exact = pulled(contents)
    if exact is None:
        have = installed()
        folder = view_of(shown(contents).names | fulfilled(requirements, have), have)
        return ImagePython(folder / "bin", [_mount(str(folder))])
    is_seen = any(Path(exact.prefix).is_relative_to(folder) for folder in _SEEN)
    needed = [str(exact.folder), *([] if is_seen else [exact.prefix])]
    return ImagePython(exact.folder / "bin", [_mount(path) for path in needed])


def shown(contents: ImageContents) -> ShownDistributions:
    """Return the distributions of a view for an image, without those that do not work here for lack of something."""
    have = installed()
    listed = [*contents.packages, *contents.system]
    same = matching(listed, have)
    names: set[str] = set()
    for here in same.values():
        names |= (closure([here], have) or set()) if here is not None else set()
    lacking = [name for name in contents.packages if same[normal_name(name)] not in names]
    return ShownDistributions(
        frozenset(names), tuple(sorted(lacking)), tuple(sorted(names - {here for here in same.values() if here}))
    )


def difference(image: str) -> str:
    """Return how the sandbox's Python for an image differs from the image's, as one line; empty if it does not."""
    contents = image_contents(image)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if contents is None:
        return f"nothing is known of {image}; the sandbox runs it with its own Python {own} and all packages there"
    if pulled(contents) is not None:
        return ""
    if contents.runtime_version is None:
        text = f"{contents.image} has Python {contents.python}; the sandbox runs it with {own}"
        return text if contents.python != own else ""
    version = contents.runtime_version
    theirs = f"Python {contents.python}, TensorFlow {contents.packages[_FRAMEWORK]}"
    ours = f"{own}, {version_here(_FRAMEWORK) or 'none'}"
    how = f" (encamp sandbox images pull {version})" if not obstacle(contents.python) else ""
    return f"the image of {version} has {theirs}; the sandbox {ours}{how}"


def own_python() -> str:
    """Return the version of the sandbox's own Python and of its TensorFlow, in words."""
    version = version_here(_FRAMEWORK)
    return f"Python {platform.python_version()} {f'and {_FRAMEWORK} {version}' if version else f'without {_FRAMEWORK}'}"


def _mount(path: str) -> dict[str, Any]:
    return {"source": path, "target": path, "read_only": True}
