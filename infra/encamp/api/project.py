"""The project that the service speaks for: its configuration, its account, and the locations of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.api import paging
from encamp.api.errors import ApiError
from encamp.spec.ai_platform import ai_platform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.spec.environment import EnvironmentSpec


@dataclass(frozen=True)
class Project:
    """A project.

    Attributes:
        id: such as ``my-project``.
        number: its number, None if nobody could be asked.
        account: e-mail that begins its jobs, None if that is the service's own user.
    """

    id: str
    number: int | None = None
    account: str | None = None

    @property
    def resource(self) -> str:
        """``projects/P``."""
        return f"projects/{self.id}"

    def is_meant(self, name: str) -> bool:
        """Whether a path names it, by id or by number."""
        return name == self.id or (self.number is not None and name == str(self.number))

    def config(self) -> dict[str, Any]:
        """Return a GetConfigResponse; what is not known is left out."""
        return {
            **({"serviceAccount": self.account} if self.account is not None else {}),
            **({"serviceAccountProject": str(self.number)} if self.number is not None else {}),
        }


class Locations:
    """The locations of jobs: the environment's region, and those that it stands in for."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        known = ai_platform().regions
        regions = {spec.region, *(known if spec.stands_in else ())}
        self._locations = {region: _location(spec.project, region) for region in sorted(regions)}

    def page(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a ListLocationsResponse.

        Raises:
            ApiError: INVALID_ARGUMENT; the page is malformed.
        """
        page = paging.asked(query, "locations")
        after = page.after[1] if page.after is not None else ""
        names = [name for name in self._locations if name > after]
        found = {"locations": [self._locations[name] for name in names[: page.size]]}
        if len(names) > page.size:
            return {**found, "nextPageToken": paging.token((0.0, names[page.size - 1]), "locations")}
        return found

    def location(self, name: str) -> dict[str, Any]:
        """Return a Location.

        Raises:
            ApiError: NOT_FOUND; no job runs there.
        """
        found = self._locations.get(name)
        if found is None:
            raise ApiError("NOT_FOUND", f"There is no location {name[:80]}; known: {', '.join(self._locations)}.")
        return found


def _location(project: str, region: str) -> dict[str, Any]:
    accelerators = _accelerators(region)
    training = {"type": "TRAINING", **({"availableAccelerators": accelerators} if accelerators else {})}
    return {"name": f"projects/{project}/locations/{region}", "capabilities": [training]}


def _accelerators(region: str) -> Sequence[str]:
    return sorted(name for name, regions in ai_platform().accelerator_regions.items() if region in regions)
