"""The environment that commands and calls are about when none is named.

It imports nothing of encamp's: the help page of every command shows it.
"""

from __future__ import annotations

import os

DEFAULT_ENVIRONMENT = "sandbox"
#: Names the environment's stack for commands and calls that are given none.
VARIABLE = "ENCAMP_ENVIRONMENT"


def chosen_environment(environment: str | None) -> str:
    """Return the environment's stack: the given one, else the variable's, else the sandbox's."""
    return environment or os.environ.get(VARIABLE) or DEFAULT_ENVIRONMENT
