"""Sends the recorded requests of the official gcp provider to a front, as that provider would send them here.

What a server makes up differs from one to the next: ids, etags, the project's number, URLs of instance groups. Each is
replaced by what this front has answered.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.storage.api import StorageServer

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

RECORDING = Path(__file__).parent / "recorded" / "gcp-provider-requests.jsonl"
#: Collections whose resources the server names.
_NAMED_BY_SERVER = ("notificationChannels", "alertPolicies", "dashboards", "budgets")
_NAMED = re.compile(rf"/({'|'.join(_NAMED_BY_SERVER)})/([0-9a-f-]+)$")
_POLICY = re.compile(r":[gs]etIamPolicy$|/iam$")
_NUMBER = "42"
#: Values that an API leaves out of its answers.
_EMPTY: tuple[Any, ...] = (None, "", 0, "0", False, [], {})


@dataclass
class Request:
    """One recorded request."""

    case: str
    method: str
    path: str
    query: dict[str, str]
    body: dict[str, Any] | None
    answered: int


def recording() -> dict[str, list[Request]]:
    """The recorded requests of each program, in the order sent."""
    found: dict[str, list[Request]] = {}
    for line in RECORDING.read_text().splitlines():
        row = json.loads(line)
        request = Request(
            row["case"], row["method"], row["path"], row.get("query") or {}, row.get("body"), row["answered"]
        )
        found.setdefault(request.case, []).append(request)
    return found


@dataclass
class Stage:
    """The clouds that a case's requests go to, one for each project that they name.

    Attributes:
        names: names that the recorded server gave, with those that this one gave for the same resource.
        etags: etag of each policy, by the path of its resource.
        unread: by collection, names that this server gave and no later request has used yet.
        made: what was created, by the path to read it: the body that was sent.
        policies: the bindings last written, by the path of the resource.
        refused: requests that were answered otherwise than recorded.
        project: the project of requests that name none.
    """

    root: Path
    layout: Layout
    clouds: dict[str, tuple[Cloud, httpx.AsyncClient]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    unread: dict[str, list[str]] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, list[Any]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    project: str = ""

    def cloud(self, project: str) -> tuple[Cloud, httpx.AsyncClient]:
        """The cloud of a project."""
        if project not in self.clouds:
            cloud = Cloud.open(self.root / f"{project}.sqlite3", project, self.layout)
            storage = StorageServer(self.root / f"{project}-storage", self.layout.token)
            front, _ = make_front(cloud, self.layout, httpx.ASGITransport(app=storage))
            client = httpx.AsyncClient(
                base_url="http://front",
                transport=httpx.ASGITransport(app=front),
                headers={"authorization": f"Bearer {self.layout.token}"},
            )
            self.clouds[project] = (cloud, client)
        return self.clouds[project]

    async def send(self, request: Request) -> httpx.Response:
        """Send one request; notes what the server named and tagged."""
        path = self._here(request.path)
        _, client = self.cloud(self._project_of(path))
        sent = self._body(request, path)
        response = await client.request(request.method, path, params=request.query, **sent)
        if response.status_code != request.answered:
            said = response.json()["error"]["message"] if response.is_error else response.text[:200]
            self.refused.append(f"{request.method} {path}: {response.status_code}, {said}")
        elif response.is_success and response.content:
            self._note(request, path, sent.get("json") or {}, response.json())
        return response

    def _project_of(self, path: str) -> str:
        found = re.search(r"/projects/([a-z][a-z0-9-]+)[/:]?", path)
        project = found[1] if found else self.project
        if not self.project:
            self.project = project
        return project

    def _here(self, text: str) -> str:
        """A path or a body with this cloud's names instead of the recorded ones."""
        number = self.cloud(self.project)[0].number if self.project else _NUMBER
        text = re.sub(rf"\bprojects/{_NUMBER}\b", f"projects/{number}", text)
        text = text.replace(f"service-{_NUMBER}@", f"service-{number}@").replace(
            "/projects/p/", f"/projects/{self.project}/"
        )
        for recorded, name in self.names.items():
            text = text.replace(recorded, name)
        found = _NAMED.search(text)
        if found is not None and (waiting := self.unread.get(found[1])) and not self._is_known(found[2]):
            self.names[f"{found[1]}/{found[2]}"] = f"{found[1]}/{waiting[0]}"
            text = text.replace(f"{found[1]}/{found[2]}", f"{found[1]}/{waiting.pop(0)}")
        return text

    def _is_known(self, name: str) -> bool:
        return any(known.endswith(f"/{name}") for known in self.names.values())

    def _body(self, request: Request, path: str) -> dict[str, Any]:
        if not request.body:
            return {}
        raw = request.body.get("raw")
        if path.startswith("/upload/"):
            head = json.loads(re.findall(r"\{.*?\}", str(raw))[0])
            parts = f"--B\r\nContent-Type: application/json\r\n\r\n{json.dumps(head)}\r\n--B\r\n\r\nbytes\r\n--B--"
            return {"content": parts, "headers": {"content-type": "multipart/related; boundary=B"}}
        body = json.loads(str(raw).partition("\n")[0]) if raw else request.body
        body = json.loads(self._here(json.dumps(body)))
        policy = body.get("policy", body) if _POLICY.search(path) else {}
        if "etag" in policy:
            policy["etag"] = self.etags.get(_POLICY.sub("", path), "")
        return {"json": body}

    def _note(self, request: Request, path: str, sent: dict[str, Any], answer: dict[str, Any]) -> None:
        collection = path.rpartition("/")[2]
        if _POLICY.search(path):
            resource = _POLICY.sub("", path)
            self.etags[resource] = answer["etag"]
            if request.method == "PUT" or collection.endswith(":setIamPolicy"):
                self.policies[resource] = sent.get("policy", sent)["bindings"]
            return
        if request.method == "POST" and collection in _NAMED_BY_SERVER:
            self.unread.setdefault(collection, []).append(answer["name"].rpartition("/")[2])
        if request.method == "POST" and ":" not in collection:
            made, body = created(path, request.query, sent, answer)
            self.made[made] = body
        elif request.method == "PATCH":
            self.made.setdefault(path, {}).update(sent)

    def close(self) -> None:
        for cloud, _ in self.clouds.values():
            cloud.close()


def created(
    path: str, query: dict[str, str], sent: dict[str, Any], answer: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Where a created resource is read, and the fields it was created with."""
    collection = path.rpartition("/")[2]
    match collection:
        case "clusters" | "nodePools":
            sent = sent[collection.removesuffix("s")]
        case "roles":
            return f"{path}/{sent['roleId']}", sent["role"]
        case "serviceAccounts":
            return f"{path}/{answer['email']}", sent["serviceAccount"]
        case "o":
            return f"{path.removeprefix('/upload')}/{quote(query['name'], safe='')}", {}
        case _ if collection in _NAMED_BY_SERVER:
            return f"{path}/{answer['name'].rpartition('/')[2]}", sent
    named = (query[key] for key in ("keyRingId", "cryptoKeyId", "repositoryId", "repository_id") if key in query)
    return f"{path}/{next(named, None) or sent['name']}", sent


def lost(sent: Any, shown: Any, path: str = "") -> list[str]:
    """Fields that were sent and are not shown; empty values and full names of references count as equal."""
    if isinstance(sent, dict):
        inner = shown if isinstance(shown, dict) else {}
        return [one for key, value in sent.items() for one in lost(value, inner.get(key), f"{path}.{key}".strip("."))]
    if sent in _EMPTY and shown in _EMPTY:
        return []
    if isinstance(sent, list) and isinstance(shown, list) and len(sent) == len(shown):
        return [one for pair in zip(sent, shown, strict=True) for one in lost(*pair, f"{path}[]")]
    if str(sent).rpartition("/")[2].lower() == str(shown).rpartition("/")[2].lower():
        return []
    return [f"{path}: {sent!r} is shown as {shown!r}"]


def run(stage: Stage, requests: list[Request]) -> list[httpx.Response]:
    """Send requests one after the other."""

    async def all_of_them() -> list[httpx.Response]:
        return [await stage.send(request) for request in requests]

    return asyncio.run(all_of_them())
