"""Loopback servers that speak Google's and Kubernetes' JSON, as far as ``encamp.cloud`` asks; for tests of it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = tuple[int, Any]


@dataclass
class Request:
    """One request as a handler sees it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def first(self, key: str, default: str = "") -> str:
        return self.query.get(key, [default])[0]


class Loopback:
    """A threaded HTTP server around a function from request to answer.

    A body may be bytes, data for JSON, or an iterator of bytes, which is sent in chunks.
    """

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server has
                pass

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                request = Request(
                    self.command,
                    unquote(parts.path),
                    parse_qs(parts.query, keep_blank_values=True),
                    dict(self.headers.items()),
                    self.rfile.read(length),
                )
                with contextlib.suppress(ConnectionError):
                    outer.send(self, request)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the names that http.server wants

        self.requests: list[Request] = []
        self.troubles: list[tuple[str, Callable[[Request], Answer | None]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fail(self, pattern: str, *statuses: int, after: bool = False) -> None:
        """Answer the next requests that match ``METHOD path`` with these statuses; ``after``: having done the work."""
        left = list(statuses)

        def trouble(request: Request) -> Answer | None:
            if not left:
                return None
            if after:
                self.answer(request)
            status = left.pop(0)
            return status, {"error": {"code": status, "message": f"scripted {status}"}}

        self.troubles.append((pattern, trouble))

    def busy(self, pattern: str, *seconds: str) -> None:
        """Answer the next requests that match with 503, and with these values of ``Retry-After``."""
        left = list(seconds)
        self.troubles.append(
            (pattern, lambda _: (503, Answered(b"{}", {"Retry-After": left.pop(0)})) if left else None)
        )

    def break_off(self, pattern: str, *pieces: bytes) -> None:
        """Answer the next requests that match with a piece each, and break the connection after it."""
        left = list(pieces)
        self.troubles.append((pattern, lambda _: (200, iter([left.pop(0), None])) if left else None))

    def say(self, pattern: str, status: int, body: Any) -> None:
        """Answer every request that matches ``METHOD path?query`` so."""
        self.troubles.append((pattern, lambda _: (status, body)))

    def send(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        self.requests.append(request)
        answer: Answer | None = None
        for pattern, trouble in self.troubles:
            if re.search(pattern, f"{request.method} {request.path}?{request.query}") and (answer := trouble(request)):
                break
        status, body = answer or self.answer(request)
        if isinstance(body, Answered):
            self._write(handler, status, body.body, body.headers)
        elif hasattr(body, "__next__"):
            self._stream(handler, body)
        else:
            self._write(handler, status, body if isinstance(body, bytes) else json.dumps(body).encode(), {})

    def answer(self, request: Request) -> Answer:
        raise AssertionError(request)

    def _write(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _stream(self, handler: BaseHTTPRequestHandler, pieces: Iterator[bytes | None]) -> None:
        """Send pieces in chunks; None breaks the connection in the middle."""
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            if piece is None:
                handler.close_connection = True
                handler.wfile.flush()
                handler.connection.close()
                return
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")


@dataclass
class Answered:
    """A body with headers of its own."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class GoogleServer(Loopback):
    """Storage, container, IAM and resource manager of one project, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets: dict[str, dict[str, Any]] = {}
        self.objects: dict[tuple[str, str], bytes] = {}
        #: Of objects that were uploaded; 1 of those that were put there.
        self.generations: dict[tuple[str, str], int] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.pools: dict[str, dict[str, Any]] = {}
        self.clusters: dict[str, dict[str, Any]] = {}
        self.operations: list[dict[str, Any]] = []
        self.placements: dict[str, dict[str, Any]] = {}
        self.accounts: dict[str, dict[str, Any]] = {}
        self.roles: dict[str, list[str]] = {}
        self.entries: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.uploads: dict[str, tuple[str, str, bytes]] = {}
        self.keep_at_most: int | None = None
        self.keep_always: int | None = None
        self.page_size = 1000

    def environ(self) -> dict[str, str]:
        return {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{self.url}/storage/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{self.url}/container/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{self.url}/iam/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.url}/compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{self.url}/logging/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{self.url}/crm/",
        }

    def add_bucket(self, name: str, **labels: str) -> None:
        uniform = {"uniformBucketLevelAccess": {"enabled": True}}
        self.buckets[name] = {"name": name, "labels": labels, "iamConfiguration": uniform}

    def answer(self, request: Request) -> Answer:
        routes: list[tuple[str, Callable[..., Answer]]] = [
            (r"POST /upload/storage/v1/b/([^/]+)/o", self._upload),
            (r"PUT /upload/storage/v1/b/([^/]+)/o", self._piece),
            (r"GET /storage/v1/b", self._list_buckets),
            (r"(GET|PUT) /storage/v1/b/([^/]+)/iam", self._bucket_policy),
            (r"GET /storage/v1/b/([^/]+)/iam/testPermissions", self._permissions),
            (r"GET /storage/v1/b/([^/]+)/o", self._list),
            (r"(GET|DELETE) /storage/v1/b/([^/]+)/o/(.+)", self._object),
            (r"(GET|DELETE) /storage/v1/b/([^/]+)", self._bucket),
            (r"(GET|DELETE) /container/v1/.+/nodePools(?:/(.+))?", self._pools),
            (r"GET /container/v1/(projects/[^/]+/locations/[^/]+/clusters/[^/]+)", self._cluster),
            (r"GET /container/v1/projects/[^/]+/locations/[^/]+/operations", self._operations),
            (r"(GET|DELETE) /compute/v1/projects/[^/]+/regions/[^/]+/resourcePolicies(?:/(.+))?", self._placements),
            (r"POST /iam/v1/projects/[^/]+/serviceAccounts/([^/:]+):(get|set)IamPolicy", self._account_policy),
            (r"POST /iam/v1/projects/-/serviceAccounts/[^/:]+:testIamPermissions", self._every_permission),
            (r"(GET|DELETE) /iam/v1/projects/[^/]+/serviceAccounts(?:/([^:]+))?", self._accounts),
            (r"GET /iam/v1/projects/[^/]+/roles/(.+)", self._role),
            (r"POST /logging/v2/entries:list", self._entries),
            (r"POST /logging/v2/entries:write", self._tell),
            (r"POST /crm/v1/projects/([^/:]+):(get|set)IamPolicy", self._project_policy),
        ]
        for pattern, route in routes:
            found = re.fullmatch(pattern, f"{request.method} {request.path}")
            if found:
                return route(request, *found.groups())
        return 404, {"error": {"code": 404, "message": f"no route {request.method} {request.path}"}}

    def _entries(self, request: Request) -> Answer:
        """Every entry in pages of two; of the filter only what is compared with the entries' labels counts."""
        wanted = re.findall(r'labels\."([^"]+)"="([^"]+)"', request.json()["filter"])
        found = [one for one in self.entries if all(one["labels"].get(key) == value for key, value in wanted)]
        start = int(request.json().get("pageToken", 0))
        answer: dict[str, Any] = {"entries": found[start : start + 2]}
        if start + 2 < len(found):
            answer["nextPageToken"] = str(start + 2)
        return 200, answer

    def _every_permission(self, request: Request) -> Answer:
        """Whoever asks may do whatever they ask for."""
        return 200, {"permissions": request.json()["permissions"]}

    def _tell(self, request: Request) -> Answer:
        """Keep what is written apart from what is listed, each entry with what all of them share."""
        body = request.json()
        shared = {key: value for key, value in body.items() if key != "entries"}
        self.told += [{**shared, **entry} for entry in body["entries"]]
        return 200, {}

    def _upload(self, request: Request, bucket: str) -> Answer:
        if bucket not in self.buckets:
            return 404, {"error": {"code": 404, "message": "The specified bucket does not exist."}}
        name = request.first("name")
        if request.first("uploadType") == "resumable":
            upload = f"u{len(self.uploads)}"
            self.uploads[upload] = (bucket, name, b"")
            location = f"https://storage.googleapis.com/upload/storage/v1/b/{bucket}/o?upload_id={upload}"
            return 200, Answered(b"", {"Location": location})
        return 200, self._store(bucket, name, request.body)

    def _piece(self, request: Request, bucket: str) -> Answer:
        upload = request.first("upload_id")
        _, name, held = self.uploads[upload]
        span, _, total = request.headers["Content-Range"].removeprefix("bytes ").partition("/")
        if span != "*":
            assert int(span.partition("-")[0]) == len(held), "a piece begins where the last one ended"
            kept = request.body
            if self.keep_at_most is not None:
                kept, self.keep_at_most = kept[: self.keep_at_most], None
            if self.keep_always is not None:
                kept = kept[: self.keep_always]
            held += kept
            self.uploads[upload] = (bucket, name, held)
        if total == "*" or len(held) < int(total):
            return 308, Answered(b"", {"Range": f"bytes=0-{len(held) - 1}"} if held else {})
        return 200, self._store(bucket, name, held)

    def _store(self, bucket: str, name: str, content: bytes) -> dict[str, Any]:
        self.objects[bucket, name] = content
        self.generations[bucket, name] = generation = self.generations.get((bucket, name), 0) + 1
        digest = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        found = {"bucket": bucket, "name": name, "size": str(len(content)), "md5Hash": digest}
        return {**found, "generation": str(generation)}

    def _list_buckets(self, _: Request) -> Answer:
        return 200, {"items": list(self.buckets.values())}

    def _bucket(self, _: Request, method: str, bucket: str) -> Answer:
        if bucket not in self.buckets:
            return 404, {"error": {"code": 404, "message": "no bucket"}}
        if method == "DELETE":
            if any(held == bucket for held, _ in self.objects):
                return 409, {"error": {"code": 409, "message": "The bucket you tried to delete is not empty."}}
            del self.buckets[bucket]
            return 204, b""
        return 200, self.buckets[bucket]

    def _bucket_policy(self, request: Request, method: str, bucket: str) -> Answer:
        return self._policy(request if method == "PUT" else None, f"b/{bucket}")

    def _project_policy(self, request: Request, project: str, verb: str) -> Answer:
        return self._policy(request if verb == "set" else None, project)

    def _policy(self, written: Request | None, key: str) -> Answer:
        held = self.policies.setdefault(key, {"bindings": [], "etag": "0"})
        if written is None:
            return 200, held
        policy = written.json()
        policy = policy.get("policy", policy)
        if policy["etag"] != held["etag"]:
            return 409, {"error": {"code": 409, "message": "There were concurrent policy changes."}}
        self.policies[key] = {**policy, "etag": str(int(held["etag"]) + 1)}
        return 200, self.policies[key]

    def _permissions(self, request: Request, _: str) -> Answer:
        return 200, {"permissions": request.query["permissions"][:1]}

    def _list(self, request: Request, bucket: str) -> Answer:
        names = sorted(
            name for held, name in self.objects if held == bucket and name.startswith(request.first("prefix"))
        )
        prefix, delimiter = request.first("prefix"), request.first("delimiter")
        if delimiter:
            cut = (name.removeprefix(prefix).partition(delimiter) for name in names)
            names = sorted({f"{prefix}{head}{mark}" for head, mark, _ in cut})
        start = int(request.first("pageToken", "0"))
        page = names[start : start + self.page_size]
        answer: dict[str, Any] = {
            "items": [self._listed(bucket, name) for name in page if not (delimiter and name.endswith(delimiter))],
            "prefixes": [name for name in page if delimiter and name.endswith(delimiter)],
        }
        if start + self.page_size < len(names):
            answer["nextPageToken"] = str(start + self.page_size)
        return 200, answer

    def _listed(self, bucket: str, name: str) -> dict[str, Any]:
        content = self.objects[bucket, name]
        crc32c = base64.b64encode(google_crc32c.Checksum(content).digest()).decode()
        return {"name": name, "size": str(len(content)), "generation": "1", "crc32c": crc32c}

    def _object(self, request: Request, method: str, bucket: str, name: str) -> Answer:
        if (bucket, name) not in self.objects:
            return 404, {"error": {"code": 404, "message": "no object"}}
        if method == "DELETE":
            del self.objects[bucket, name]
            return 204, b""
        content, generation = self.objects[bucket, name], str(self.generations.get((bucket, name), 1))
        if request.first("generation", generation) != generation:
            return 404, {"error": {"code": 404, "message": "no such generation"}}
        if request.first("alt") == "media":
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
            begin, end = (int(span[1]), int(span[2]) + 1 if span[2] else len(content)) if span else (0, len(content))
            return (206 if span else 200, content[begin:end]) if begin <= len(content) else (416, b"")
        return 200, {"bucket": bucket, "name": name, "size": str(len(content))}

    def _operations(self, _: Request) -> Answer:
        return 200, {"operations": self.operations} if self.operations else {}

    def _pools(self, _: Request, method: str, name: str | None) -> Answer:
        if method == "GET":
            return 200, {"nodePools": list(self.pools.values())}
        if name not in self.pools:
            return 404, {"error": {"code": 404, "message": "no pool"}}
        del self.pools[name]
        return 200, {"name": "operation-1", "status": "RUNNING"}

    def _cluster(self, _: Request, path: str) -> Answer:
        if path not in self.clusters:
            return 404, {"error": {"code": 404, "message": "no cluster"}}
        return 200, self.clusters[path]

    def _placements(self, _: Request, method: str, name: str | None) -> Answer:
        if method == "GET":
            return 200, {"items": list(self.placements.values())}
        if name not in self.placements:
            return 404, {"error": {"code": 404, "message": "no policy"}}
        users = [pool for pool in self.pools.values() if pool.get("placementPolicy", {}).get("policyName") == name]
        if users:
            return 400, {"error": {"code": 400, "message": "The resource_policy is already being used"}}
        del self.placements[name]
        return 200, {"name": "operation-2", "status": "RUNNING"}

    def _account_policy(self, request: Request, email: str, verb: str) -> Answer:
        return self._policy(request if verb == "set" else None, f"sa/{email}")

    def _role(self, _: Request, name: str) -> Answer:
        if name not in self.roles:
            return 403, {"error": {"code": 403, "message": "no iam.roles.get"}}
        return 200, {"name": name, "includedPermissions": self.roles[name]}

    def _accounts(self, _: Request, method: str, email: str | None) -> Answer:
        if method == "GET":
            return 200, {"accounts": list(self.accounts.values())}
        if email not in self.accounts:
            return 404, {"error": {"code": 404, "message": "no account"}}
        del self.accounts[email]
        return 200, {}


class KubernetesServer(Loopback):
    """Objects by kind and name of one namespace, and scripted logs.

    Attributes:
        logs: pod to the bodies of its successive log requests; the last one is given again and again. A body is
            a list of pieces, None among them breaks the connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.logs: dict[str, list[list[bytes | None]]] = {}
        self.log_requests: list[Request] = []

    def kubeconfig(self, user: dict[str, Any] | None = None) -> str:
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                "users": [{"name": "u", "user": user or {"token": "t0"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )

    def put(self, kind: str, name: str, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        item = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}}, **fields}
        self.objects[kind, name] = item
        return item

    def answer(self, request: Request) -> Answer:
        found = re.fullmatch(r"/apis?/(?:[^/]+/)?v[^/]+/namespaces/[^/]+/([a-z]+)(?:/([^/]+))?(/log)?", request.path)
        assert found, request.path
        kind, name, log = found.groups()
        if log:
            return self._log(request, name)
        if request.method == "POST":
            return self._post(kind, request.json())
        if name is None:
            return 200, {
                "metadata": {"resourceVersion": "1"},
                "items": self._chosen(kind, request.first("labelSelector")),
            }
        if (kind, name) not in self.objects:
            return 404, {"kind": "Status", "message": f'{kind} "{name}" not found', "code": 404}
        if request.method == "DELETE":
            if kind == "jobsets":
                for pod in self._chosen("pods", f"jobset.sigs.k8s.io/jobset-name={name}"):
                    del self.objects["pods", pod["metadata"]["name"]]
            return 200, self.objects.pop((kind, name))
        return 200, self.objects[kind, name]

    def _post(self, kind: str, item: dict[str, Any]) -> Answer:
        name = item["metadata"]["name"]
        if (kind, name) in self.objects:
            return 409, {"kind": "Status", "message": f'{kind} "{name}" already exists', "code": 409}
        item["metadata"]["uid"] = f"uid-{name}"
        self.objects[kind, name] = item
        return 201, item

    def _chosen(self, kind: str, selector: str) -> list[dict[str, Any]]:
        wanted = dict(one.split("=", 1) for one in selector.split(",") if one)
        return [
            item
            for (held, _), item in self.objects.items()
            if held == kind and all(item["metadata"]["labels"].get(key) == value for key, value in wanted.items())
        ]

    def _log(self, request: Request, pod: str) -> Answer:
        self.log_requests.append(request)
        bodies = self.logs.get(pod)
        if bodies is None:
            return 404, {"message": f'pods "{pod}" not found'}
        body = bodies.pop(0) if len(bodies) > 1 else bodies[0]
        return 200, iter(body)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition; False when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
