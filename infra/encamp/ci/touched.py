"""The stacks that a change touches: every stack that reads a file which differs.

A stack reads its own config, what its config names, and the program. What a job's stack reads of its environment is
that environment's config; what of its job file's folder, the trainer, its build files and its packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from encamp.errors import EncampError
from encamp.redaction import texts
from encamp.spec.job_stack import read_job_stack
from encamp.spec.stack_files import stack_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

STACKS = "stacks"
#: Paths of the program of every stack.
_PROGRAM = ("Pulumi.yaml", "infra/", "templates/", "requirements.lock", "requirements.txt")
#: Files that decide, beside a trainer, how it is packed.
_BUILD = ("setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in")


class StackKind(StrEnum):
    """The kind of a stack, by its config."""

    ENVIRONMENT = "environment"
    JOB = "job"
    OTHER = "other"


class Was(StrEnum):
    """The change of a stack's config."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True)
class StackConfig:
    """A committed stack.

    Attributes:
        name: the stack's name.
        kind: what its config asks for.
        environment: name of the environment's stack: its own where it is one, empty if it names none.
        config: its config by key, such as ``encamp:job``.
    """

    name: str
    kind: StackKind
    environment: str
    config: dict[str, Any]

    @property
    def file(self) -> str:
        """Path of its config in the repository."""
        return f"{STACKS}/Pulumi.{self.name}.yaml"


@dataclass(frozen=True)
class Touched:
    """A stack that a change touches.

    Attributes:
        stack: as it is now, or as it was where it is removed.
        was: what became of its config.
        because: the paths that differ and that it reads, sorted.
    """

    stack: StackConfig
    was: Was
    because: tuple[str, ...]


def stacks(tree: Path) -> dict[str, StackConfig]:
    """Return the committed stacks of a tree by name. A config that is no YAML mapping is a stack of the kind OTHER."""
    return {name: _stack(name, _config(file)) for name, file in stack_files(tree / STACKS).items()}


def is_secret(value: Any) -> bool:
    """Whether a value of a stack's config is encrypted as a whole."""
    return isinstance(value, dict) and set(value) == {"secure"}


def holds_secret(config: Any) -> bool:
    """Whether a value of a stack's config is one that only the stack's own key opens."""
    if isinstance(config, dict):
        return is_secret(config) or any(holds_secret(value) for value in config.values())
    return isinstance(config, list) and any(holds_secret(value) for value in config)


def touched_stacks(head: Path, base: Path, changed: Sequence[str]) -> tuple[Touched, ...]:
    """Return the stacks that a change touches, environments first.

    Args:
        head: the tree with the change.
        base: the tree without it.
        changed: paths that differ between the two.
    """
    before, after = stacks(base), stacks(head)
    found = []
    for name in sorted(before.keys() | after.keys()):
        reads: set[str] = set()
        for tree, known in ((base, before), (head, after)):
            if name in known:
                reads |= set(_reads(known[name], tree))
        because = tuple(path for path in changed if any(_covers(one, path) for one in reads))
        if because:
            was = Was.REMOVED if name not in after else Was.CHANGED if name in before else Was.ADDED
            found.append(Touched(after.get(name) or before[name], was, because))
    return tuple(sorted(found, key=lambda one: (one.stack.kind is not StackKind.ENVIRONMENT, one.stack.name)))


def _covers(read: str, path: str) -> bool:
    return path == read or (read.endswith("/") and path.startswith(read))


def _config(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        return dict(content.get("config") or {})
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError, ValueError):
        return {}


def _stack(name: str, config: dict[str, Any]) -> StackConfig:
    if "encamp:job" in config:
        return StackConfig(name, StackKind.JOB, str(config.get("encamp:environmentStack") or ""), config)
    kind = StackKind.ENVIRONMENT if "encamp:environment" in config else StackKind.OTHER
    return StackConfig(name, kind, name, config)


def _reads(stack: StackConfig, tree: Path) -> Iterator[str]:
    """Yield paths in the repository that a stack reads; one that ends with a slash stands for all below it."""
    yield stack.file
    yield from _PROGRAM
    yield from _named(stack.config)
    if stack.kind is StackKind.JOB:
        if stack.environment:
            yield f"{STACKS}/Pulumi.{stack.environment}.yaml"
            yield from _named(_config(tree / STACKS / f"Pulumi.{stack.environment}.yaml"))
        yield from _of_job(stack, tree)


def _named(config: dict[str, Any]) -> Iterator[str]:
    """Yield every text of a config that may be a path: relative to the repository, or to the folder of the stacks."""
    for text in texts(config):
        path = PurePosixPath(text)
        if path.parts and not path.is_absolute() and ".." not in path.parts:
            yield str(path)
            yield f"{STACKS}/{path}"


def _of_job(stack: StackConfig, tree: Path) -> Iterator[str]:
    job = stack.config["encamp:job"]
    try:
        found = read_job_stack(job, repository=tree, stack=stack.name)
    except (EncampError, AttributeError, TypeError):
        # A file that cannot be read now may have been read before: then the whole folder of the job counts.
        file = job.get("file") if isinstance(job, dict) else None
        if isinstance(file, str):
            folder = PurePosixPath(file).parent
            yield f"{folder}/" if folder.parts else file
        return
    if found.folder is None or not found.folder.is_relative_to(tree.resolve()):
        return
    folder = PurePosixPath(found.folder.relative_to(tree.resolve()).as_posix())
    block = found.job.encamp
    if block.package_path is not None:
        trainer = folder / block.package_path
        yield f"{trainer}/"
        yield from (str(trainer.parent / name) for name in _BUILD)
    yield from (str(folder / one) for one in block.packages or ())
