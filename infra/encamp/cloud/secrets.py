"""Secret Manager: the text of a secret, for whoever may read it. No error quotes it.

Belief: secret-manager-access.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from encamp.cloud.endpoints import Service
from encamp.errors import EngineError

if TYPE_CHECKING:
    from encamp.cloud.rest import GoogleClient


def secret_text(client: GoogleClient, name: str) -> str:
    """The text of ``projects/P/secrets/S``, its latest version, or of ``projects/P/secrets/S/versions/V``.

    Raises:
        RestError: it is not there, or may not be read.
        EngineError: it is no text.
    """
    version = name if "/versions/" in name else f"{name}/versions/latest"
    payload: Any = client.json(Service.SECRET_MANAGER, "GET", f"/v1/{version}:access").get("payload")
    try:
        return base64.b64decode(payload["data"], validate=True).decode()
    except (KeyError, TypeError, ValueError):
        # The cause would quote what was read.
        raise EngineError("the secret is no text", where=version) from None
