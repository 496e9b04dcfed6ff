"""The flags of the old submit client: each sets a field of the job, which declares it, and wins over the file's.

Differences to the old client stand in docs/decisions/0026.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from encamp.errors import UsageError
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from encamp.spec.fields import FlagGroup
    from encamp.spec.loading import DataPath

_INPUT = "trainingInput"
#: Where what follows ``--`` is kept between parsing and the command.
ARGUMENTS = "encamp.arguments"
#: Where everything that follows the verb is kept as it was given.
WORDS = "encamp.words"
_PREFIX = "job_flag_"
_OWN = ("file", "config")


@dataclass(frozen=True)
class JobFlag:
    """A flag that sets one field.

    Attributes:
        read: text to the field's value; raises ValueError with what is wrong.
        switch: it takes no value and sets what ``read`` makes of "true".
        adds: it may be given several times, and adds to the field's list.
    """

    name: str
    path: DataPath
    metavar: str
    help: str
    group: FlagGroup
    read: Callable[[str], Any] = str
    switch: bool = False
    adds: bool = False

    @property
    def parameter(self) -> str:
        """Its name among click's parameters."""
        return _parameter(self.name)


def _enum(text: str) -> str:
    return text.strip().upper().replace("-", "_")


def _accelerator(text: str) -> dict[str, str]:
    found = _pairs(text)
    if set(found) != {"type", "count"}:
        raise ValueError("must be type=TYPE,count=NUMBER, such as type=nvidia-tesla-t4,count=1")
    return {"type": _enum(found["type"]), "count": found["count"]}


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise ValueError(f"{part!r} must be KEY=VALUE")
        if key in found:
            raise ValueError(f"names {key} twice")
        found[key] = value
    return found


def _boolean(text: str) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in known:
        raise ValueError(f"{text!r} must be true or false")
    return known[text.lower()]


@cache
def job_flags() -> tuple[JobFlag, ...]:
    """Return the flag of every field that is declared with one, see :mod:`encamp.spec.fields`.

    The models of job files are imported here and not before: most commands have no such flags.
    """
    from encamp.spec.job import TrainingJobSpec  # noqa: PLC0415

    return tuple(_flags(TrainingJobSpec, (), None))


def _flags(model: type[BaseModel], path: DataPath, role: Role | None) -> Iterator[JobFlag]:
    """Yield flags of a model's fields and of those below them; ``role`` is the one whose options the model is."""
    from encamp.spec.field_docs import docstrings, inner_model  # noqa: PLC0415
    from encamp.spec.fields import declaration  # noqa: PLC0415

    roles = {each.config_field: each for each in Role}
    for name, info in model.model_fields.items():
        here = (*path, info.alias or name)
        said = declaration(info).flag
        if said is not None:
            words = said.help or docstrings(model)[name].replace("`", "")
            stem = said.name or name.replace("_", "-")
            yield JobFlag(
                name=f"--{stem}" if role is None else f"--{role.flag}-{stem}",
                path=here,
                metavar=said.metavar,
                help=words if role is None else words.replace("{whose}", _whose(role)),
                group=said.group,
                read=_reader(info) if said.switch is None else lambda _, value=said.switch: value,
                switch=said.switch is not None,
                adds=said.adds,
            )
        inner = inner_model(info)
        if inner is not None:
            yield from _flags(inner, here, roles.get(name, role))


def _whose(role: Role) -> str:
    return f"the {role.words}" if role is Role.MASTER else f"the {role.words}s"


def _reader(info: FieldInfo) -> Callable[[str], Any]:
    """Return how a flag's text becomes a field's value: by the field's type."""
    from encamp.spec.field_docs import parts  # noqa: PLC0415
    from encamp.spec.training import AcceleratorConfig  # noqa: PLC0415

    for kind in parts(info.annotation):
        if kind is AcceleratorConfig:
            return _accelerator
        if kind is bool or get_args(kind)[:1] == (bool,):
            return _boolean
        if get_origin(kind) is dict:
            return _pairs
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return _enum
    return str


#: The parts of a key's name; only --kms-key sets the field.
KMS_FLAGS = {
    "--kms-key": ("KEY", "Key that encrypts the job's disks: its whole name, or with the three below."),
    "--kms-keyring": ("RING", "Key ring of --kms-key."),
    "--kms-location": ("REGION", "Location of --kms-key."),
    "--kms-project": ("PROJECT", "Project of --kms-key."),
}
_KMS_PATH = (_INPUT, "encryptionConfig", "kmsKeyName")
ARGS_PATH = (_INPUT, "args")
URIS_PATH = (_INPUT, "packageUris")


def flag_names() -> dict[DataPath, str]:
    """Path of a field to the flag that sets it."""
    return {
        **{flag.path: flag.name for flag in job_flags()},
        URIS_PATH: "--packages",
        _KMS_PATH: "--kms-key",
        ARGS_PATH: "-- ARGS",
    }


class JobCommand(click.Command):
    """A verb about one job: its file, or flags instead of it or over it, and the job's own arguments after ``--``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [
            click.Argument(["file"], required=False, metavar="[JOB.yaml]", type=click.Path(path_type=Path)),
            click.Option(
                ["--config"],
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="JOB.yaml, as with gcloud; the job's id may stand before it.",
            ),
        ]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the verb's own parameters, then the flags of job fields."""
        return [*super().get_params(ctx), *_job_options()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take what follows the first ``--`` for the job."""
        ctx.meta[WORDS] = list(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta[ARGUMENTS] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the verb with ``job``, the :class:`~encamp.cli.job_input.JobInput` that all of it makes."""
        from encamp.cli.job_input import JobInput  # noqa: PLC0415 - it needs the table of this module

        own = {name: ctx.params.pop(name) for name in list(ctx.params) if name in _OWN or name.startswith(_PREFIX)}
        values = given_values(own)
        if ARGUMENTS in ctx.meta:
            values[ARGS_PATH] = ctx.meta[ARGUMENTS]
        ctx.params["job"] = JobInput.made(own["file"], own["config"], values, Path.cwd())
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the job's own arguments."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help in sections: the verb's own options first."""
        from encamp.spec.fields import FlagGroup  # noqa: PLC0415 - read with the models, see ``job_flags``

        groups = {flag.parameter: flag.group for flag in job_flags()}
        groups |= {_parameter(name): FlagGroup.OPTIONS for name in KMS_FLAGS}
        titles = {group: f"{group} (instead of JOB.yaml's, or over it)" for group in FlagGroup}
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Command", *titles.values())}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = groups.get(parameter.name or "")
                sections[titles[group] if group is not None else "Command"].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


@cache
def _job_options() -> tuple[click.Option, ...]:
    return (
        *(_option(flag) for flag in job_flags()),
        *(_plain(name, metavar, text) for name, (metavar, text) in KMS_FLAGS.items()),
    )


def _option(flag: JobFlag) -> click.Option:
    if flag.switch:
        return click.Option([flag.name, flag.parameter], is_flag=True, default=None, help=flag.help)
    return click.Option(
        [flag.name, flag.parameter], metavar=flag.metavar, multiple=flag.adds, help=flag.help, default=None
    )


def _plain(name: str, metavar: str, text: str) -> click.Option:
    return click.Option([name, _parameter(name)], metavar=metavar, help=text)


def _parameter(name: str) -> str:
    return _PREFIX + name.removeprefix("--").replace("-", "_")


def given_values(parameters: Mapping[str, Any]) -> dict[DataPath, Any]:
    """Fields that were given by flags, local packages as the user wrote them.

    Raises:
        UsageError: a flag's value has not the form of one.
    """
    values: dict[DataPath, Any] = {}
    for flag in job_flags():
        value = parameters.get(flag.parameter)
        if value is None or value == ():
            continue
        try:
            if flag.adds:
                from encamp.spec.overrides import Added  # noqa: PLC0415 - help pages need no models

                values[flag.path] = Added(value, _same_distribution)
            else:
                values[flag.path] = flag.read("true" if flag.switch else value)
        except ValueError as error:
            raise UsageError(str(error), where=flag.name) from None
    key = _kms_key(parameters)
    return {**values, **({_KMS_PATH: key} if key is not None else {})}


def _same_distribution(of_the_file: Any, given: str) -> bool:
    """Whether two requirements are of one distribution, so that the flag's takes the place of the file's."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few commands are given any
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    try:
        return canonicalize_name(Requirement(str(of_the_file)).name) == canonicalize_name(Requirement(given).name)
    except InvalidRequirement:
        return False


def _kms_key(parameters: Mapping[str, Any]) -> str | None:
    given = {name: parameters.get(_parameter(name)) for name in KMS_FLAGS}
    key = given.pop("--kms-key")
    if key is None:
        lone = next((name for name, value in given.items() if value is not None), None)
        if lone is not None:
            raise UsageError("says nothing without --kms-key", where=lone)
        return None
    if "/" in key:
        return key
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise UsageError(
            f"needs {', '.join(missing)} beside it",
            where="--kms-key",
            hint="or give the key's whole name: projects/P/locations/REGION/keyRings/R/cryptoKeys/K",
        )
    project, location, ring = given["--kms-project"], given["--kms-location"], given["--kms-keyring"]
    return f"projects/{project}/locations/{location}/keyRings/{ring}/cryptoKeys/{key}"
