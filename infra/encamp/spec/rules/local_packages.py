"""Rules of local packages: E12 and E13. ``packaging`` checks that the files exist."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from encamp.spec.rules.places import BUCKET

if TYPE_CHECKING:
    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

#: Endings of the files that pip installs.
ARCHIVES = (".whl", ".tar.gz", ".zip")
_LONGEST_SHOWN = 120


def check_local_packages(case: Case) -> None:
    """Check E12: paths below the job file's folder, archives that pip installs, each name once."""
    block = case.job.encamp
    if block.package_path is not None:
        _package_path(case, block.package_path)
    at: DataPath = ("encamp", "packages")
    seen: dict[str, str] = {PurePosixPath(uri).name: uri for uri in case.input.package_uris or []}
    for index, text in enumerate(block.packages or []):
        path = PurePosixPath(text)
        if _leaves_folder(text):
            message = f"{text[:_LONGEST_SHOWN]!r} must be a file below the job file's folder"
            case.problem("E12", (*at, index), message, "such as wheels/helpers-0.1-py3-none-any.whl")
        elif not path.name.endswith(ARCHIVES) or path.name in ARCHIVES:
            message = f"{text[:_LONGEST_SHOWN]!r} must end in {', '.join(ARCHIVES)}"
            case.problem("E12", (*at, index), message, "build a wheel of it: python -m build --wheel")
        elif path.name in seen:
            message = f"{path.name} is also the name of {seen[path.name][:_LONGEST_SHOWN]}; packages share one folder"
            case.problem("E12", (*at, index), message, "rename one, or drop it")
        else:
            seen[path.name] = text
    if block.staging_bucket is not None:
        _staging_bucket(case, block.staging_bucket)


def _staging_bucket(case: Case, text: str) -> None:
    """Refuse a staging bucket with a folder: the old client took a bucket's name only and made the folders itself."""
    scheme, _, bucket = text.partition("gs://")
    if scheme or not BUCKET.fullmatch(bucket.removesuffix("/")):
        message = f"{text[:_LONGEST_SHOWN]!r} must be gs:// and the name of a bucket, without a folder"
        case.problem("E12", ("encamp", "staging_bucket"), message, "such as gs://my-bucket")


def _package_path(case: Case, text: str) -> None:
    path = PurePosixPath(text)
    at: DataPath = ("encamp", "package_path")
    if _leaves_folder(text):
        message = f"{text[:_LONGEST_SHOWN]!r} must be a folder below the job file's own"
        case.problem("E12", at, message, "such as trainer")
    elif not path.name.isidentifier():
        message = f"{path.name[:_LONGEST_SHOWN]!r} is no name that Python can import"
        close = path.name.replace("-", "_")
        case.problem("E12", at, message, f"rename it to {close}" if close.isidentifier() else None)


def _leaves_folder(text: str) -> bool:
    path = PurePosixPath(text)
    return path.is_absolute() or ".." in path.parts or not path.name or "\\" in text or not text.isprintable()


def check_requirements(case: Case) -> None:
    """Check E13: one requirement each, as PEP 508 writes them; no options of pip."""
    at: DataPath = ("encamp", "requirements")
    for index, text in enumerate(case.job.encamp.requirements or []):
        wrong, hint = _requirement_problem(text)
        if wrong is not None:
            case.problem("E13", (*at, index), f"{text[:_LONGEST_SHOWN]!r} {wrong}", hint)


def _requirement_problem(text: str) -> tuple[str | None, str | None]:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few files have requirements

    if text.lstrip().startswith("-"):
        return "is an option of pip; a requirement names a package", "list each package, such as pandas>=2"
    if not text.isprintable():
        return "holds a line break or another character that is no text", "one requirement an item"
    try:
        Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0].rstrip(".")
        return f"is no requirement: {reason}", "such as pandas>=2,<3"
    return None, None
