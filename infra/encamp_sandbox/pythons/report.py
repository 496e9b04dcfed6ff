"""The Python of each runtime version's replicas on this machine, for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from encamp.spec.data_files import data_file
from encamp_sandbox.pythons.choice import shown
from encamp_sandbox.pythons.interpreters import at_hand, obstacle
from encamp_sandbox.pythons.pulled import contents_of, pulled

if TYPE_CHECKING:
    from encamp.plan.image_contents import ImageContents


@dataclass(frozen=True)
class RuntimePython:
    """The Python of a runtime version's replicas.

    Attributes:
        version: the runtime version.
        image_python: version of its image's Python.
        tensorflow: version of its image's TensorFlow.
        exact: whether replicas get these.
        python: program of the environment, None if it is a view of the sandbox's own Python.
        possible: whether the image's own could be brought, as far as is known beforehand.
        lacking: distributions of the image that replicas do not have.
        beyond: distributions that replicas have and the image has not.
        text: all of it in words.
    """

    version: str
    image_python: str
    tensorflow: str
    exact: bool
    python: str | None
    possible: bool
    lacking: tuple[str, ...]
    beyond: tuple[str, ...]
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def versions() -> list[RuntimePython]:
    """Return every runtime version that has a stock image, oldest first."""
    return [_of(contents_of(version)) for version in data_file("runtimes")["versions"]]


def _of(contents: ImageContents) -> RuntimePython:
    version = contents.runtime_version or ""
    image = (contents.python, contents.packages["tensorflow"])
    if (exact := pulled(contents)) is not None:
        program = str(exact.folder / "bin" / "python3")
        return RuntimePython(
            version, *image, True, program, True, (), (), f"exactly, Python {exact.version}: {program}"
        )
    found = shown(contents)
    problem = obstacle(contents.python)
    counts = f"nearly, {len(found.lacking)} packages less and {len(found.beyond)} more"
    text = f"{counts}; {problem}" if problem else f"{counts}: encamp sandbox images pull {version} ({_from(contents)})"
    return RuntimePython(version, *image, False, None, not problem, found.lacking, found.beyond, text)


def _from(contents: ImageContents) -> str:
    program = at_hand(contents.python)
    return f"with {program}" if program is not None else f"downloads Python {contents.python}"
