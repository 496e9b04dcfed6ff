"""Modules that a trainer imports and that its image and the job's requirements do not bring.

Tables: ``spec/data/image_packages.json`` for stock images by runtime version, ``spec/data/requirements.json`` for what
requirements bring, ``spec/data/standard_library.json`` for what came with a later Python. It is a warning, and only
what is sure is said: nothing of an image that no table knows, of a job with packages or requirements that may bring
anything, or of modules of a namespace that many distributions share.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from encamp.plan.image_facts import stock_runtime
from encamp.plan.manifests.containers import container
from encamp.spec.ai_platform import version_key
from encamp.spec.data_files import data_file
from encamp.spec.distributions import brought, distribution_of, modules_of
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from encamp.plan.manifests.containers import Container
    from encamp.plan.model import LocalPackage
    from encamp.plan.replicas import RoleRequest
    from encamp.plan.trainer_imports import ImportedModule, TrainerImports
    from encamp.spec.job import TrainingJobSpec

#: Namespaces of more distributions than a table could hold.
_SHARED_NAMES = {"azure", "backports", "google", "ruamel", "sphinxcontrib", "zope"}
#: Shorter names of distributions are parts of too many words.
_LEAST_PART = 4
_MOST_SHOWN = 20


@dataclass(frozen=True)
class MissingImport:
    """A missing module in words, and the line that adds it."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


@dataclass(frozen=True)
class _Held:
    """The modules (by dotted name) and distributions of a replica's image."""

    image: str
    python: str
    modules: frozenset[str]
    distributions: frozenset[str]


def missing_imports(
    job: TrainingJobSpec, containers: Sequence[Container], packages: Sequence[LocalPackage]
) -> list[MissingImport]:
    """Return the imports of a job's trainer that the first of its stock images lacks.

    Args:
        job: the job.
        containers: of its roles, with images as named before a cache of the environment's.
        packages: its archives on this machine; only what is said of the trainer's is looked at.
    """
    trainer = next((package.imports for package in packages if package.imports is not None), None)
    if trainer is None:
        return []
    return trainer_misses(job, containers, trainer)


def trainer_misses(
    job: TrainingJobSpec, containers: Sequence[Container], trainer: TrainerImports
) -> list[MissingImport]:
    """See :func:`missing_imports`, with what a trainer imports."""
    images = [found.image for found in containers if found.interpreter is not None]
    stock = next(((image, runtime) for image in images if (runtime := stock_runtime(image)) is not None), None)
    if stock is None or job.training_input.package_uris or job.encamp.packages:
        return []
    added = _added((*(job.encamp.requirements or ()), *(trainer.requires or ())))
    if trainer.requires is None or added is None:
        return []
    image, (version, python) = stock
    table = data_file("image_packages")
    names = frozenset([*table["versions"][version]["packages"], *table["system"], *added])
    held = _Held(image, python, modules_of(names), names)
    told: dict[str, MissingImport] = {}
    for module in trainer.modules:
        for name, found in _missing(module, trainer, held):
            told.setdefault(name, found)
    return list(told.values())[:_MOST_SHOWN]


def stock_containers(job: TrainingJobSpec, requests: Sequence[RoleRequest]) -> list[Container]:
    """Return containers of a job without an environment, as stock images would run it.

    Raises:
        PlanError: there is no stock image of the runtime version.
    """
    images: Mapping[str, str] = {}
    return [container(job.training_input, request, None, images) for request in requests]


def _added(requirements: Sequence[str]) -> frozenset[str] | None:
    """Return distributions that requirements bring; None if one of them may bring anything."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - most jobs require nothing

    names: list[str] = []
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            return None
        if wanted.url is not None or wanted.extras:
            return None
        names.append(wanted.name)
    return brought(names)


def _missing(module: ImportedModule, trainer: TrainerImports, held: _Held) -> Iterator[tuple[str, MissingImport]]:
    """Yield a name for which one line is enough, and that line. Nothing if the module is there or nobody can tell."""
    first = module.name.partition(".")[0]
    place = visible(module.place)
    prefixes = _prefixes(module.name)
    if first in trainer.own:
        return
    if _is_standard(first):
        added = data_file("standard_library")["added"]
        found = next((one for one in prefixes if one in added), None)
        if found is None or version_key(added[found]) <= version_key(held.python) or found in held.modules:
            return
        message = (
            f"{place} imports {found}, which came with Python {added[found]}; {held.image} has Python {held.python}"
        )
        yield found, MissingImport(message, "choose a later runtimeVersion, or do without it where its import fails")
        return
    known = next((one for one in prefixes if distribution_of(one) is not None), None)
    if known is None and (first in _SHARED_NAMES or trainer.extends_path or _may_be_held(first, held.distributions)):
        return
    name = known or first
    if {name, name.lower()} & held.modules:
        return
    what = f"{place} imports {name}, which {held.image} does not have, nor do the job's requirements bring it"
    yield name, MissingImport(what, _hint(distribution_of(name)))


def _hint(distribution: str | None) -> str:
    if distribution is None:
        return "pack it with the trainer, or name the distribution that has it by --requirement"
    return f"add {distribution} to encamp.requirements, or give --requirement {distribution}"


def _prefixes(name: str) -> list[str]:
    """Return a dotted name and its parents, the longest first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _is_standard(name: str) -> bool:
    """Whether some Python of today or of an image has a module; those that are gone were in every image's."""
    table = data_file("standard_library")
    gone = chain.from_iterable(table["removed"].values())
    return name in sys.stdlib_module_names or name in table["added"] or name in gone


def _may_be_held(module: str, names: Collection[str]) -> bool:
    """Whether a distribution's name resembles a module's that no table knows, as pyzmq does zmq."""
    short = module.lower().replace("_", "")
    plain = {name.replace("-", "") for name in names}
    return any(short in name or (len(name) >= _LEAST_PART and name in short) for name in plain)
