"""Teams that change take effect without a restart: the file that says them is read anew whenever it has changed.

On a machine that is the environment's committed stack config; a pod of the environment's cluster has a file that
``pulumi up`` writes there (a ConfigMap). A file that cannot be read changes nothing: who may what stays as it was, and
the service's log says why.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.errors import EncampError, UsageError
from encamp.run.periodic import Periodic
from encamp.spec.environment import load_environment, parse_environment
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.api.access import Access
    from encamp.spec.environment import EnvironmentSpec

_LOG = logging.getLogger(__name__)
#: Seconds between looks at the file.
SECONDS: Final = 2.0
#: Fields of such a file, in the words of an environment.
_ACCESS, _ACT_AS = "access", "actAs"


@dataclass(frozen=True)
class AccessFile:
    """The file that holds an environment's teams.

    Attributes:
        read: the environment as the file says it now; raises EncampError.
    """

    path: Path
    read: Callable[[], EnvironmentSpec]

    @classmethod
    def committed(cls, environment: str, checkout: Path) -> AccessFile:
        """Return the stack config of an environment."""
        path = checkout / "stacks" / f"Pulumi.{environment}.yaml"
        return cls(path, lambda: load_environment(environment, checkout))

    @classmethod
    def given(cls, path: Path, spec: EnvironmentSpec) -> AccessFile:
        """Return access read from a JSON file: ``access`` as in an environment, ``actAs`` as in its ``api`` block."""
        return cls(path, lambda: _merged(path, spec))

    def mark(self) -> tuple[int, int, int] | None:
        """Return a mark that changes with the file's content; None if there is no such file now."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class LiveAccess(Periodic):
    """Keeps access as a file says it, in a thread.

    Args:
        access: what is kept.
    """

    def __init__(self, access: Access, file: AccessFile, seconds: float = SECONDS) -> None:
        super().__init__("access", seconds)
        self._access = access
        self._file = file
        self._seen: tuple[int, int, int] | None = None

    def look(self) -> None:
        """Read the file where it has changed since the last time.

        Raises:
            EncampError: it cannot be read; nothing has changed.
        """
        mark = self._file.mark()
        if mark is None or mark == self._seen:
            return
        self._seen = mark
        self._access.take(self._file.read())

    def step(self) -> bool:
        """Look once, and continue."""
        before = self._seen
        try:
            self.look()
        except EncampError as error:
            _LOG.error("who may what stays as it was: %s", visible(str(error)))
        else:
            if self._seen != before:
                _LOG.info("who may what is as %s says now", self._file.path)
        return True


def _merged(path: Path, spec: EnvironmentSpec) -> EnvironmentSpec:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        given: dict[str, Any] = {**found}
        data = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True, exclude={"access"})
        if given.get(_ACCESS) is not None:
            data[_ACCESS] = given[_ACCESS]
        if "api" in data:
            data["api"][_ACT_AS] = given.get(_ACT_AS) or []
    except (OSError, ValueError, TypeError) as error:
        hint = 'write {"access": {"teams": [...]}, "actAs": [...]}'
        raise UsageError(f"is no file of teams: {error}", where=str(path), hint=hint) from error
    return parse_environment(data, project=spec.project, source=str(path))
