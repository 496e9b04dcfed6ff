"""Parts of encamp that are installed when asked for, and the line that installs one.

The modules are those of the extras in ``pyproject.toml``; a test compares. Whoever begins something that needs an extra
calls :func:`need` before anything is made. ``cli/main.py`` turns what slipped through into the same message.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

TUNING = "a job with hyperparameters"
_SERVERS = ("h11", "lark", "starlette", "uvicorn")
#: Name of an extra to the modules that it brings.
EXTRAS: dict[str, Sequence[str]] = {
    "notices": ("apprise",),
    "postgres": ("psycopg",),
    "sandbox": _SERVERS,
    "serve": (*_SERVERS, "jwt"),
    "tuning": ("numpy", "scipy", "sklearn", "threadpoolctl"),
}


def need(extra: str, what: str) -> None:
    """Refuse to begin with what needs an extra that is not installed.

    Args:
        extra: its name.
        what: what needs it, as the beginning of a sentence: "the sandbox".

    Raises:
        UsageError: says which modules are missing and the line that installs them.
    """
    error = lacking(extra, what)
    if error is not None:
        raise error


def lacking(extra: str, what: str) -> UsageError | None:
    """The error that :func:`need` raises; None if the extra is installed."""
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    return _not_installed(extra, what, missing) if missing else None


def missing_extra(error: ModuleNotFoundError) -> UsageError | None:
    """Return the message for a module that an extra brings; None for every other module, whose absence is a bug."""
    module = (error.name or "").partition(".")[0]
    extra = next((name for name, modules in EXTRAS.items() if module in modules), None)
    return _not_installed(extra, "this", [module]) if extra is not None else None


def _not_installed(extra: str, what: str, modules: Sequence[str]) -> UsageError:
    return UsageError(f"{what} needs packages that are not installed: {', '.join(modules)}", hint=install_line(extra))


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'encamp[{extra}]'"
