"""Regions and zones by their names."""

from __future__ import annotations

import re
from typing import Final

ZONE: Final = re.compile(r"([a-z]+-[a-z]+\d+)-[a-z]")
LOCATION: Final = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z])?")
_LETTERS = ("a", "b", "c", "f")
_CHOSEN = 3


def zones_of_region(region: str) -> list[str]:
    """Return the zones of a region: every region of the sandbox has those of us-central1."""
    return [f"{region}-{letter}" for letter in _LETTERS]


def default_zones(location: str) -> list[str]:
    """Return the zones that GKE chooses: three of a region, or the zone itself."""
    return [location] if ZONE.fullmatch(location) else zones_of_region(location)[:_CHOSEN]


def region_of(location: str) -> str:
    """Return the region of a location that may be a zone."""
    zone = ZONE.fullmatch(location)
    return zone[1] if zone else location
