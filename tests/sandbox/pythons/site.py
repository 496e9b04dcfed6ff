"""Distributions of a test's own in a site-packages, as pip leaves them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Site:
    """A site-packages."""

    folder: Path

    def install(
        self, name: str, *files: str, version: str = "1.0", requires: tuple[str, ...] = (), script: str = ""
    ) -> None:
        """Write a distribution whose modules say their own names."""
        info = self.folder / f"{name}-{version}.dist-info"
        info.mkdir()
        needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        if script:
            (info / "entry_points.txt").write_text(f"[console_scripts]\n{name} = {script}\n")
        for file in files:
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"def main():\n    print({file!r})\n")
        listed = [
            *files,
            *(f"{info.name}/{path.name}" for path in info.iterdir()),
            f"{info.name}/RECORD",
            "../../bin/x",
        ]
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in listed))
