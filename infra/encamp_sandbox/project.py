"""The sandbox's one project: its number follows from its id, so that every part of the sandbox says the same."""

from __future__ import annotations

from hashlib import sha256


def project_number(project: str) -> str:
    """Return the number of a project: twelve digits."""
    return str(100_000_000_000 + int(sha256(project.encode()).hexdigest(), 16) % 900_000_000_000)
