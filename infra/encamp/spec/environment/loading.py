"""Reads environments: in a stack's config file or in ``pulumi.Config``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.errors import Problem, SpecError, UsageError
from encamp.spec.environment.files import with_files
from encamp.spec.environment.model import EnvironmentSpec
from encamp.spec.environment.rules import environment_problems
from encamp.spec.loading import DataPath, Document, load_document
from encamp.spec.reading import Reading, read_model
from encamp.spec.stack_files import stack_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def load_environment(name: str, repository: Path) -> EnvironmentSpec:
    """Return the environment of the stack config ``stacks/Pulumi.<name>.yaml``.

    Raises:
        UsageError: there is no such stack config.
        SpecError: everything that is wrong with it.
    """
    known = stack_files(repository / "stacks")
    if name not in known:
        listed = ", ".join(known) or "none"
        raise UsageError(f"there is no environment {name!r}", where="stacks/", hint=f"known stacks: {listed}")
    relative = f"stacks/Pulumi.{name}.yaml"
    document = load_document(repository / relative, source=relative)
    config = document.data.get("config")
    if not isinstance(config, dict) or "encamp:environment" not in config:
        message = "holds no `encamp:environment`: it is not the stack of an environment"
        raise SpecError(relative, [Problem("config", document.line(("config",)), None, message)])
    at = ("config", "encamp:environment")
    spec = read_environment(document, config["encamp:environment"], prefix=at, project=config.get("gcp:project"))
    return with_files(spec, repository)


def parse_environment(data: Mapping[str, Any], *, project: str | None, source: str) -> EnvironmentSpec:
    """Return an environment of plain data; see :func:`load_environment`. Files that it names are not read."""
    return read_environment(Document(source, dict(data)), data, prefix=(), project=project)


def read_environment(document: Document, data: Any, *, prefix: DataPath, project: Any) -> EnvironmentSpec:
    """Return an environment that stands somewhere in a document.

    Args:
        document: where it stands.
        data: its mapping.
        prefix: path of the mapping in the document.
        project: the stack's project, used when the environment names none.

    Raises:
        SpecError: everything that is wrong with it.
    """
    reading = Reading(document)
    spec = read_model(EnvironmentSpec, data, reading, prefix=prefix)
    if not spec.project and isinstance(project, str):
        spec = spec.model_copy(update={"project": project})
    reading.check(EnvironmentSpec, environment_problems(spec))
    return spec
