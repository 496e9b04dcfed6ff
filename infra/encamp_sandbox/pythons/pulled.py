"""Stock images' own Python and packages, with the versions of the table, made by uv when a user asks for them.

Nothing of it is downloaded otherwise: the environment of one runtime version takes about 1 GB. The distributions of an
image's operating system are left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import SandboxError, UsageError
from encamp.plan.image_contents import ImageContents, stock_contents
from encamp.spec.data_files import data_file
from encamp_sandbox.pythons.cache import made_once, pythons_folder
from encamp_sandbox.pythons.interpreters import found_or_downloaded, is_too_old, version_and_prefix
from encamp_sandbox.pythons.uv import run_program, run_uv
from encamp_sandbox.tools.catalog import target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Raised when environments get another form.
_FORMAT = 1
_ABOUT = "encamp.json"
_FRAMEWORK = "tensorflow"
#: TensorFlow without CUDA, a third of the size: the sandbox has no GPUs. Belief: cpu-image-has-tensorflow-cpu.
_BUILD_FOR_CPUS = "tensorflow-cpu"


@dataclass(frozen=True)
class PulledPython:
    """An environment with an image's own Python and packages.

    Attributes:
        folder: of the environment; its programs lie in ``bin``.
        version: of its Python, such as ``3.8.18``.
        prefix: folder that this Python was installed to, which the environment needs.
    """

    folder: Path
    version: str
    prefix: str


def pulled(contents: ImageContents) -> PulledPython | None:
    """Return the environment of a stock image; None if nobody asked for it, or its Python is gone from this machine."""
    if contents.runtime_version is None:
        return None
    folder = _folder(contents)
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except OSError:
        return None
    return PulledPython(folder, **about) if (folder / "bin" / "python3").exists() else None


def pull(version: str, python: str | None, tell: Callable[[str], None]) -> PulledPython:
    """Make the environment of a runtime version's stock image, if it is not there.

    Args:
        version: the runtime version.
        python: program of the Python to use; None to find or download it.
        tell: gets each step.

    Raises:
        UsageError: there is no stock image of this version, or the Python is of another version.
        SandboxError: uv or the Python is not at hand, or packages cannot be installed.
    """
    contents = contents_of(version)
    folder = made_once(
        _folder(contents),
        lambda partial: _make(partial, contents, python, tell),
        is_whole=lambda _: pulled(contents) is not None,
    )
    found = pulled(contents)
    if found is None:
        raise SandboxError(f"the environment of {version} was removed while it was made", where=str(folder))
    return found


def contents_of(version: str) -> ImageContents:
    """Return the contents of a runtime version's stock image. Raises UsageError for a version without one."""
    known = data_file("runtimes")["versions"]
    if version not in known:
        raise UsageError(f"no stock image is known of runtime version {version!r}", hint=f"one of {', '.join(known)}")
    return stock_contents(version)


def _folder(contents: ImageContents) -> Path:
    """Return the environment's folder, named by all that decides its content."""
    content = json.dumps([_FORMAT, target(), contents.python, _pins(contents)])
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return pythons_folder() / "images" / f"{contents.runtime_version}-{digest}"


def _pins(contents: ImageContents) -> list[str]:
    has_build = not contents.packages[_FRAMEWORK].startswith("1.")
    names = {_FRAMEWORK: _BUILD_FOR_CPUS} if has_build else {}
    return sorted(f"{names.get(name, name)}=={version}" for name, version in contents.packages.items())


def _make(folder: Path, contents: ImageContents, python: str | None, tell: Callable[[str], None]) -> None:
    chosen = None if is_too_old(contents.python) else python
    program = chosen or found_or_downloaded(contents.python, tell)
    version, prefix = version_and_prefix(program, contents.python)
    tell(f"installing {len(contents.packages)} packages of {contents.image} for Python {version}, about 1 GB")
    run_uv(["venv", "--quiet", "--clear", "--seed", "--relocatable", "--python", program, str(folder)])
    pins = folder / "requirements.txt"
    pins.write_text("\n".join([*_pins(contents), ""]), encoding="utf-8")
    own = str(folder / "bin" / "python")
    run_uv(["pip", "install", "--python", own, "--no-deps", "--requirement", str(pins)])
    tell("compiling, and importing TensorFlow")
    # Compiled now, since replicas cannot write there. Files for other Pythons are among them, and fail.
    with contextlib.suppress(SandboxError):
        run_program([own, "-m", "compileall", "-qq", "-j", "0", str(folder / "lib")], "compileall")
    run_program([own, "-c", "import tensorflow"], f"TensorFlow of {contents.image} does not run on this machine")
    (folder / _ABOUT).write_text(json.dumps({"version": version, "prefix": prefix}), encoding="utf-8")
