"""gcloud as it is, in front of the service and a storage server; and what it sent when it was recorded."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml
from tests.api.world import ADMIN, PROJECT

from encamp_sandbox.storage.api import StorageServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
GCLOUD = shutil.which("gcloud")
_STORAGE = ("/storage/", "/upload/", "/resumable/")
#: What differs from one call to the next.
_VARYING = (
    (re.compile(r"[0-9a-f]{64}"), "SHA256"),
    (re.compile(r"={15}\d+=="), "BOUNDARY"),
    (re.compile(r"upload_id=[0-9a-f]+"), "upload_id=SESSION"),
    (re.compile(r'(timestamp[<>=]+|insertId>)\\?"[^"]+"'), r'\1"PLACE"'),
    (re.compile(r'\{"size": "\d+"\}'), '{"size": "SIZE"}'),
)
_BOUND = re.compile(r'timestamp<"[^"]+"')
#: Of a longer body only that it was so long is kept.
_LONGEST = 64 * 1024
_FILLED = b"0123456789abcdef"


@dataclass(frozen=True)
class Case:
    """One call of gcloud.

    Attributes:
        files: that it finds, by name.
        chunk: size of an upload's pieces.
        refused: expression for what the service answers where it refuses the last request.
        said: what gcloud says of what it does not even ask for, or of what the storage server refuses.
        shown: expressions for lines that it shows.
    """

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    chunk: int | None = None
    refused: str | None = None
    said: str | None = None
    shown: tuple[str, ...] = ()


def submissions() -> list[Case]:
    """The cases of `jobs submit training`."""
    data = yaml.safe_load((HERE / "cases.yaml").read_text())["submit"]
    found = []
    for name, about in data["cases"].items():
        track = [about["track"]] if "track" in about else []
        arguments = about.get("alone") or [*data["base"], *about.get("more", [])]
        call = (*track, "ai-platform", "jobs", "submit", "training", about.get("id", name), *arguments)
        found.append(_case(name, call, about))
    return found


def flags() -> set[str]:
    """Every flag of `jobs submit training`, also of its beta."""
    data = yaml.safe_load((HERE / "cases.yaml").read_text())["submit"]
    return {f"--{name}" for name in data["flags"]}


def steps() -> list[Case]:
    """The other calls."""
    data = yaml.safe_load((HERE / "cases.yaml").read_text())["steps"]
    return [_case(name, ("ai-platform", "jobs", *about["call"]), about) for name, about in data.items()]


def _case(name: str, call: tuple[str, ...], about: Mapping[str, Any]) -> Case:
    known = {key: about[key] for key in ("files", "chunk", "refused", "said") if key in about}
    return Case(name, call, **known, shown=tuple(about.get("shown", ())))


@dataclass(frozen=True)
class Sent:
    """A request, and the answer to it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer: bytes

    @property
    def data(self) -> Any:
        """The answer's JSON."""
        return json.loads(self.answer)

    def to_json(self) -> dict[str, Any]:
        """As it is kept, without the answer."""
        kept: dict[str, Any] = {"method": self.method, "target": self.target, "headers": dict(self.headers)}
        if len(self.body) > _LONGEST:
            kept["filled"] = len(self.body)
        elif self.headers.get("content-type") == "application/json":
            kept["json"] = json.loads(self.body)
        elif self.body:
            kept["base64"] = base64.b64encode(self.body).decode()
        return kept


def body_of(kept: Mapping[str, Any]) -> bytes:
    """The body of a request that was kept."""
    if "filled" in kept:
        return filled(kept["filled"])
    if "json" in kept:
        return json.dumps(kept["json"]).encode()
    return base64.b64decode(kept.get("base64", ""))


def _late(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """What asks for entries up to its own time asks for all: those here are younger than the recording."""
    text = kept.get("json", {}).get("filter")
    if text is None:
        return kept
    return {**kept, "json": {**kept["json"], "filter": _BOUND.sub('timestamp<"2100-01-01T00:00:00Z"', text)}}


def filled(size: int) -> bytes:
    """What a large package is full of."""
    return (_FILLED * (size // len(_FILLED) + 1))[:size]


def told(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Requests without what differs from one call to the next."""
    found = []
    for one in kept:
        shown = {key: value for key, value in one.items() if key != "base64"}
        text = json.dumps(shown, sort_keys=True)
        for varying, name in _VARYING:
            text = varying.sub(name, text)
        found.append(text)
    # It polls until nothing comes any more: how often depends on the machine.
    return list(dict.fromkeys(found))


class Front:
    """The service, and a storage server at the root of the same host; keeps what was sent."""

    def __init__(self, service: ASGIApp, folder: Path) -> None:
        self._service = service
        self._storage = StorageServer(folder / "storage", ADMIN)
        self._storage.buckets.create({"name": "staging"})
        self.sent: list[Sent] = []

    def close(self) -> None:
        self._storage.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body, answer = bytearray(), bytearray()
        status = 0

        async def heard() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def answered(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answer.extend(message.get("body", b""))
            await send(message)

        app = self._storage if scope["path"].startswith(_STORAGE) else self._service
        await app(scope, heard, answered)
        query = f"?{scope['query_string'].decode()}" if scope["query_string"] else ""
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        # Of the rest of its name, most is this machine's.
        agent = headers.get("user-agent", "").partition(" invocation-id")[0]
        wanted = ("content-type", "content-range", "x-upload-content-type", "x-upload-content-length")
        kept = {name: headers[name] for name in wanted if name in headers} | {"user-agent": agent}
        target = scope["raw_path"].decode() + query
        self.sent.append(Sent(scope["method"], target, kept, bytes(body), status, bytes(answer)))

    def object(self, name: str) -> bytes:
        """An object of the staging bucket, by its whole name."""
        row = self._storage.objects.row("staging", name)
        return self._storage.objects.path(row).read_bytes()


class Gcloud:
    """Calls gcloud against a front, without network, credentials or configuration of anybody's."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder / "work"
        trainer = self._folder / "trainer"
        trainer.mkdir(parents=True)
        (trainer / "__init__.py").touch()
        (trainer / "task.py").write_text("print('trained')\n")
        (self._folder / "big.tar.gz").write_bytes(filled(6_500_000))
        (folder / "token").write_text(ADMIN)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CLOUDSDK_CONFIG": str(folder / "gcloud"),
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(folder / "token"),
            "CLOUDSDK_COMPUTE_REGION": "us-central1",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url}storage/v1/",
        }

    def call(self, case: Case, *, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Call it, and give what it said."""
        for name, text in case.files.items():
            (self._folder / name).write_text(text)
        environment = dict(self._environment)
        if case.chunk is not None:
            environment["CLOUDSDK_STORAGE_UPLOAD_CHUNK_SIZE"] = str(case.chunk)
        assert GCLOUD is not None
        return subprocess.run(
            [GCLOUD, *case.arguments], cwd=self._folder, env=environment, text=True, capture_output=True,
            timeout=seconds, check=False,
        )  # fmt: skip


class Player:
    """Sends what was recorded, as gcloud did."""

    def __init__(self, front: Front, recorded: Mapping[str, Any]) -> None:
        self._front = front
        self._recorded = recorded

    async def play(self, case: Case) -> None:
        """Send the requests of a case."""
        transport = httpx.ASGITransport(self._front)
        session = ""
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            for one in self._recorded[case.name]:
                target = re.sub(r"upload_id=[0-9a-f]+", session, one["target"]) if session else one["target"]
                headers = {**one["headers"], "authorization": f"Bearer {ADMIN}"}
                answer = await client.request(one["method"], target, headers=headers, content=body_of(_late(one)))
                found = re.search(r"upload_id=[0-9a-f]+", answer.headers.get("location", ""))
                session = found[0] if found else session


def recorded() -> dict[str, Any]:
    """What gcloud sent, by case."""
    found: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return found


def record(sent: Mapping[str, Sequence[Sent]]) -> None:
    """Keep what it sent now."""
    kept = {name: [one.to_json() for one in requests] for name, requests in sent.items()}
    RECORDED.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
