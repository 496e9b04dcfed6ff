"""``encamp new``: a first job file, commented line by line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say
from encamp.errors import UsageError
from encamp.resources import repository

if TYPE_CHECKING:
    from encamp.spec.encamp import GpuType, TpuVersion

_STDOUT = "-"
_SCHEMA = "job.schema.json"
# As in the models, which help pages do not load; a test compares.
TIERS = ("BASIC", "STANDARD_1", "PREMIUM_1", "BASIC_GPU", "BASIC_TPU", "CUSTOM")
FRAMEWORKS = ("tensorflow", "pytorch", "scikit-learn", "xgboost")


@click.command(name="new")
@click.option(
    "--tier", type=click.Choice(TIERS, case_sensitive=False), help="Scale tier; CUSTOM with the options below."
)
@click.option("--accelerator", metavar="TYPE", help="GPU such as NVIDIA_L4, or TPU such as v5e, of each machine.")
@click.option("--framework", type=click.Choice(FRAMEWORKS), default="tensorflow", show_default=True)
@click.option("--workers", type=int, default=0, metavar="N", help="Workers beside the master.")
@click.option("--output", metavar="FILE", default="job.yaml", show_default=True, help="File to write, - for stdout.")
@click.option("--trainer", is_flag=True, help="Also write a first trainer package beside the file.")
def command(
    tier: str | None, accelerator: str | None, framework: str, workers: int, output: str, *, trainer: bool
) -> None:
    """Write a job file for a tier, an accelerator and a framework, with a comment on each part.

    A file that exists is left alone. Outside a checkout of encamp the JSON Schema for editors is written beside it.
    """
    from encamp.spec.new_job import Choices, new_job, render  # noqa: PLC0415 - help pages need no models
    from encamp.spec.training import ScaleTier  # noqa: PLC0415

    path = Path("job.yaml" if output == _STDOUT else output)
    schema = _schema_of(path)
    choices = Choices(ScaleTier(tier.upper()) if tier else None, _accelerator(accelerator), framework, workers)
    text = render(new_job(choices, file=str(path), schema=schema))
    if output == _STDOUT:
        if trainer:
            raise UsageError("--trainer writes files, and - writes none", hint="name a file with --output")
        say(text, nl=False)
        return
    folder = path.parent / "trainer"
    if trainer and folder.exists():
        raise UsageError("exists already, and is left alone", where=str(folder), hint="drop --trainer")
    _write(path, text)
    if trainer:
        _write_trainer(folder, framework)
    say(f"{path} is written; its code {'is in' if trainer else 'goes into'} {folder}, in task.py")
    say(f"next: encamp plan {path}")


def _accelerator(name: str | None) -> GpuType | TpuVersion | None:
    from encamp.spec.new_job import ACCELERATORS  # noqa: PLC0415
    from encamp.spec.paths import nearest  # noqa: PLC0415

    if name is None:
        return None
    known = {each.value: each for each in ACCELERATORS}
    plain = name.upper().replace("-", "_")
    found = known.get(plain) or known.get(name.lower())
    if found is None:
        close = nearest(name, list(known))
        hint = f"write {close}" if close else f"one of {', '.join(known)}"
        raise UsageError(f"no accelerator is called {name[:60]!r}", hint=hint)
    return found


def _schema_of(path: Path) -> str:
    """Where an editor finds the schema: in the checkout that the file lies in, else beside the file."""
    checkout = repository()
    folder = path.resolve().parent
    if checkout is not None and folder.is_relative_to(checkout):
        return Path(os.path.relpath(checkout / "docs" / _SCHEMA, folder)).as_posix()
    return _SCHEMA


def _write_trainer(folder: Path, framework: str) -> None:
    from encamp.spec.new_job import trainer_files  # noqa: PLC0415

    folder.mkdir()
    for name, text in trainer_files(framework).items():
        (folder / name).write_text(text, encoding="utf-8")


def _write(path: Path, text: str) -> None:
    """Write the file, and the schema where it is wanted beside it.

    Raises:
        UsageError: the file exists, or its folder does not or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        if _schema_of(path) == _SCHEMA:
            from encamp.spec.json_schema import job_schema  # noqa: PLC0415

            schema = json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"
            path.with_name(_SCHEMA).write_text(schema, encoding="utf-8")
    except FileExistsError as error:
        raise UsageError("exists already, and is left alone", where=str(path), hint="name another --output") from error
    except OSError as error:
        hint = "make its folder first" if not path.parent.is_dir() else "name another --output"
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path), hint=hint) from error
