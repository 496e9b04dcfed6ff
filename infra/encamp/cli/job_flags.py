"""The flags of the old submit client, one table: each sets a field of the job, and wins over the file's.

Differences to the old client stand in docs/decisions/0026.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.spec.loading import DataPath

_INPUT = "trainingInput"
_ROLES = {"master": "master", "worker": "worker", "parameter-server": "parameterServer", "evaluator": "evaluator"}
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
    group: str
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


def _environment_storage(_: str) -> dict[str, str]:
    return {"kind": "ENVIRONMENT"}


def _roles() -> list[JobFlag]:
    flags: list[JobFlag] = []
    for name, field in _ROLES.items():
        group, config = "Machines", (_INPUT, f"{field}Config")
        whose = f"of the {name.replace('-', ' ')}{'' if name == 'master' else 's'}"
        if name != "master":
            count = f"How many {name.replace('-', ' ')}s."
            flags.append(JobFlag(f"--{name}-count", (_INPUT, f"{field}Count"), "N", count, group))
        flags += [
            JobFlag(f"--{name}-machine-type", (_INPUT, f"{field}Type"), "TYPE", f"Machine type {whose}.", group),
            JobFlag(
                f"--{name}-accelerator",
                (*config, "acceleratorConfig"),
                "type=T,count=N",
                f"GPUs of each machine {whose}.",
                group,
                _accelerator,
            ),
            JobFlag(f"--{name}-image-uri", (*config, "imageUri"), "IMAGE", f"Container image {whose}.", group),
        ]
    return flags


_CODE, _PLACES, _OPTIONS = "Code", "Places", "Options"
FLAGS: tuple[JobFlag, ...] = (
    JobFlag("--module-name", (_INPUT, "pythonModule"), "MODULE", "Module that is run, such as trainer.task.", _CODE),
    JobFlag("--package-path", ("encamp", "packagePath"), "FOLDER", "Trainer package on this machine.", _CODE),
    JobFlag("--packages", ("encamp", "packages"), "A,B,...", "Packages: gs:// paths or files.", _CODE),
    JobFlag(
        "--requirement",
        ("encamp", "requirements"),
        "REQUIREMENT",
        "Requirement for pip, such as 'pandas>=2', if the image lacks it; added to the file's own; may be repeated.",
        _CODE,
        adds=True,
    ),
    JobFlag("--runtime-version", (_INPUT, "runtimeVersion"), "VERSION", "Runtime version, such as 2.11.", _CODE),
    JobFlag("--python-version", (_INPUT, "pythonVersion"), "VERSION", "Python of it, such as 3.7.", _CODE),
    JobFlag("--region", (_INPUT, "region"), "REGION", "Region that the job runs in.", _PLACES),
    JobFlag("--job-dir", (_INPUT, "jobDir"), "gs://...", "Where the job writes; passed on as --job-dir.", _PLACES),
    JobFlag(
        "--keep-output",
        ("encamp", "storage"),
        "",
        "Without a job dir: write to jobs/<id>/output of the environment's bucket, passed on as --job-dir.",
        _PLACES,
        _environment_storage,
        switch=True,
    ),
    JobFlag(
        "--staging-bucket",
        ("encamp", "stagingBucket"),
        "gs://BUCKET",
        "Bucket for the packages of this machine; the job's own when absent.",
        _PLACES,
    ),
    JobFlag("--scale-tier", (_INPUT, "scaleTier"), "TIER", "basic, standard-1, ..., custom.", "Machines", _enum),
    *_roles(),
    JobFlag(
        "--use-chief-in-tf-config",
        (_INPUT, "useChiefInTfConfig"),
        "true|false",
        "Call the master chief in TF_CONFIG.",
        _OPTIONS,
        _boolean,
    ),
    JobFlag("--max-trials", (_INPUT, "hyperparameters", "maxTrials"), "N", "Trials of a tuning job.", _OPTIONS),
    JobFlag(
        "--resume-previous-job-id",
        (_INPUT, "hyperparameters", "resumePreviousJobId"),
        "ID",
        "Tuning job whose study goes on.",
        _OPTIONS,
    ),
    JobFlag("--labels", ("labels",), "K=V,...", "Labels of the job; they replace the file's.", _OPTIONS, _pairs),
    JobFlag("--service-account", (_INPUT, "serviceAccount"), "E-MAIL", "Account of the replicas.", _OPTIONS),
    JobFlag("--network", (_INPUT, "network"), "NETWORK", "Network that the machines are peered with.", _OPTIONS),
    JobFlag(
        "--enable-web-access",
        (_INPUT, "enableWebAccess"),
        "",
        "Accepted without effect: encamp opens no shells in replicas.",
        _OPTIONS,
        _boolean,
        switch=True,
    ),
)
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
        **{flag.path: flag.name for flag in FLAGS},
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
            *(_option(flag) for flag in FLAGS),
            *(_plain(name, metavar, text) for name, (metavar, text) in KMS_FLAGS.items()),
        ]

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
        groups = {flag.parameter: flag.group for flag in FLAGS}
        groups |= {_parameter(name): _OPTIONS for name in KMS_FLAGS}
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = groups.get(parameter.name or "", "")
                title = f"{group} (instead of JOB.yaml's, or over it)" if group else "Command"
                sections.setdefault(title, []).append(record)
        for title, records in sorted(sections.items(), key=lambda item: item[0] != "Command"):
            with formatter.section(title):
                formatter.write_dl(records)


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
    for flag in FLAGS:
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
