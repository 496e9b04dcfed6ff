"""The sandbox's cloud over REST, as an administrator asks it; a front that is being killed is asked again."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp_sandbox.layout import Layout

_PATIENCE_SECONDS = 60.0
_NOT_FOUND = 404
_CONFLICT = 409


class Front:
    """The REST front and the API server of one sandbox."""

    def __init__(self, layout: Layout) -> None:
        headers = {"authorization": f"Bearer {layout.token}"}
        self._google = httpx.Client(
            base_url=f"http://127.0.0.1:{layout.ports.front}", headers=headers, trust_env=False, timeout=60
        )
        self._kubernetes = httpx.Client(
            base_url=f"https://127.0.0.1:{layout.ports.apiserver}",
            headers=headers,
            verify=ssl.create_default_context(cafile=str(layout.ca_certificate)),
            trust_env=False,
            timeout=60,
        )

    def close(self) -> None:
        self._google.close()
        self._kubernetes.close()

    def google(self, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        """Ask one of Google's services (or ``/encamp``); None for 404."""
        return _parsed(_asked(self._google, method, path, options))

    def text(self, path: str) -> str | None:
        """What one of Google's services gives as it is; None for 404."""
        answer = _asked(self._google, "GET", path, {"params": {"alt": "media"}})
        return None if answer is None else answer.text

    def kubernetes(self, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        """Ask the API server; None for 404."""
        return _parsed(_asked(self._kubernetes, method, path, options))

    def pages(self, path: str, key: str, **params: str) -> Iterator[dict[str, Any]]:
        """Every entry of a listing."""
        token = ""
        while True:
            page = self.google("GET", path, params={**params, "pageToken": token} if token else params) or {}
            yield from page.get(key, [])
            token = page.get("nextPageToken", "")
            if not token:
                return


class Fault:
    """A fault that is set for as long as the context lasts."""

    def __init__(self, front: Front, **fault: Any) -> None:
        self._front = front
        self._fault = fault
        self._path = ""

    def __enter__(self) -> Self:
        made = self._front.google("POST", "/encamp/v1/faults", json=self._fault)
        assert made is not None
        self._path = f"/encamp/v1/faults/{made['id']}"
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def release(self) -> None:
        """Delete it; what it holds up goes on."""
        self._front.google("DELETE", self._path)

    def struck(self) -> list[dict[str, Any]]:
        """What it struck until now."""
        found = self._front.google("GET", self._path)
        return found["struck"] if found else []


def _parsed(answer: httpx.Response | None) -> dict[str, Any] | None:
    return None if answer is None else answer.json() if answer.content else {}


def _asked(client: httpx.Client, method: str, path: str, options: dict[str, Any]) -> httpx.Response | None:
    end = time.monotonic() + _PATIENCE_SECONDS
    again = False
    while True:
        try:
            answer = client.request(method, path, **options)
            if answer.status_code == _NOT_FOUND:
                return None
            if again and answer.status_code == _CONFLICT:
                # The front died between the deed and its answer.
                return answer
            answer.raise_for_status()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            passing = not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error
            if not passing or time.monotonic() > end:
                raise
            again = True
            time.sleep(0.2)
        else:
            return answer
