"""The location of encamp's own files: in a checkout beside ``infra/``, in a wheel inside the package."""

from __future__ import annotations

from pathlib import Path

#: Folder of the import package.
PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = PACKAGE.parent.parent


def repository() -> Path | None:
    """Return the checkout that this package runs from, or None for an installed wheel."""
    return _CHECKOUT if (_CHECKOUT / "Pulumi.yaml").is_file() else None


def resource(*parts: str) -> Path:
    """Return a file or folder that ships with encamp, such as ``resource("templates", "jobset.yaml.j2")``.

    Raises:
        FileNotFoundError: it is neither beside the package nor inside it.
    """
    for base in (_CHECKOUT, PACKAGE / "data"):
        found = base.joinpath(*parts)
        if found.exists():
            return found
    raise FileNotFoundError("/".join(parts))
