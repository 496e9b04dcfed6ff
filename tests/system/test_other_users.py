"""Another user of the machine against a live sandbox: every listening socket is in the table of docs/security.md, and
none of them answers.

The sandbox belongs to a user without any right, as in ``test_ordinary_user``; the attacker is the machine's ``nobody``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import psutil
import pytest

from encamp_sandbox.environment import variables
from encamp_sandbox.layout import Layout
from encamp_sandbox.provider.messages import provider_pb2, provider_pb2_grpc
from encamp_sandbox.provider.values import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).resolve().parents[2]
#: As user 1000 in a user namespace of its own, a process keeps its files and loses every capability.
ORDINARY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
ENCAMP = [sys.executable, "-c", "from encamp.cli.main import main; main()"]
NOBODY = 65534
TABLE = re.compile(r"^\| `([a-z_]+)` \|.*\| ([a-z ]+) \|$", re.MULTILINE)
#: What a server may do for a stranger, by the table's last column.
REFUSALS = {
    "closed": {"nothing"},
    "no handshake": {"nothing", "no handshake"},
    "unauthorized": {"nothing", "401", "403"},
    "admission answers": {"nothing", "404", "405", "415", "admission"},
}
SECONDS = 5.0


def table() -> dict[str, str]:
    """Port to what a stranger gets, of docs/security.md."""
    return dict(TABLE.findall((REPOSITORY / "docs" / "security.md").read_text()))


def as_nobody(work: Callable[[], Any]) -> Any:
    """Do something in a process of the user nobody; gives what it returned, as JSON has it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            text = json.dumps(work())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            text = json.dumps(f"{type(error).__name__}: {error}")
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said)


def read(sock: socket.socket, sent: bytes) -> bytes:
    with contextlib.suppress(ConnectionError, TimeoutError):
        sock.sendall(sent)
        return sock.recv(4096)
    return b""


def kind(answer: bytes) -> str:
    """A word for what came back."""
    if not answer:
        return "nothing"
    if answer.startswith(b"HTTP/1.1 200") and b'"response":' in answer:
        return "admission"
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return found[1].decode() if found else f"{answer[:40]!r}"


def tried(port: int) -> list[str]:
    """Speak to a port in plain, as gRPC, as a proxy's client, and over TLS; gives a word for each answer."""
    requests = [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5),
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n",
    ]
    found = []
    for request in requests:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as sock:
            answer = read(sock, request)
            # A TLS server tells whoever speaks plain that it is one.
            found.append("nothing" if answer.startswith((b"\x15", b"HTTP/1.0 400")) else kind(answer))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for path in ("/healthz", "/version", "/metrics", "/mutate-jobset-x-k8s-io-v1alpha2-jobset"):
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as sock,
                context.wrap_socket(sock) as secured,
            ):
                request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                secured.sendall(request)
                answer = b""
                while part := secured.recv(4096):
                    answer += part
                found.append(kind(answer))
        except (ssl.SSLError, ConnectionError, TimeoutError):
            found.append("no handshake")
    return found


def listeners(root: Path) -> dict[tuple[str, int], str]:
    """Address and port of every socket that a process of the sandbox listens on, with the process's command."""
    found: dict[tuple[str, int], str] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(root) not in process.environ().get("ENCAMP_SANDBOX_DIR", ""):
                continue
            for one in process.net_connections(kind="inet"):
                if one.status == psutil.CONN_LISTEN:
                    found[one.laddr.ip, one.laddr.port] = " ".join(process.cmdline())[:120]
    return found


def ordinary(layout_root: Path, *command: str, wait: bool = True) -> subprocess.Popen[str]:
    environment = {**os.environ, "ENCAMP_SANDBOX_DIR": str(layout_root), "PYTHONPATH": str(REPOSITORY / "infra")}
    started = subprocess.Popen(
        [*ORDINARY, *command],
        cwd=REPOSITORY,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if wait:
        said, _ = started.communicate(timeout=400)
        assert started.returncode == 0, said
    return started


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    root = tmp_path_factory.mktemp("others") / "sb"
    try:
        ordinary(root, *ENCAMP, "sandbox", "up")
        yield Layout.open(root)
    finally:
        ordinary(root, *ENCAMP, "sandbox", "down")


def test_the_attacker_is_another_user() -> None:
    assert as_nobody(os.getuid) == NOBODY != os.getuid()


def test_what_listens_is_in_the_table_and_answers_no_stranger(layout: Layout) -> None:
    # An environment with queues brings Kueue, and its run the engine and the language host.
    run = ordinary(layout.root, *ENCAMP, "environment", "up", wait=False)
    during: dict[tuple[str, int], str] = {}
    while run.poll() is None:
        during |= listeners(layout.root)
        time.sleep(0.2)
    said, _ = run.communicate()
    assert run.returncode == 0, said
    ports = {port: name for name, port in dataclasses.asdict(layout.ports).items()}
    found = listeners(layout.root)
    assert {address for address, _ in found} == {"127.0.0.1"}
    documented = table()
    named = {ports.get(port, f"{port}: {command}") for (_, port), command in found.items()}
    assert named - set(documented) == set()
    passing = {command for (_, port), command in during.items() if port not in ports}
    # The engine's own, and that of its Automation API within encamp's process, which takes its events.
    engines = ("language_host", "/pulumi ", "environment up")
    assert {name for name in passing if not any(one in name for one in engines)} == set()
    for (_, port), command in found.items():
        name = ports[port]
        answers = as_nobody(lambda port=port: tried(port))
        assert isinstance(answers, list), (name, answers)
        allowed = REFUSALS[documented[name]] | {"no handshake"}
        assert set(answers) <= allowed, (name, command, answers)


def test_the_servers_answer_their_own_user(layout: Layout) -> None:
    """The same questions, asked by the sandbox's own user: it is the user that decides, not the question."""
    code = "import socket, sys\nsock = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5)\n"
    code += "sock.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')\n"
    code += "assert b'200' in sock.recv(100)"
    for port in (layout.ports.front, layout.ports.storage):
        ordinary(layout.root, sys.executable, "-c", code, str(port))


def provider(port: int, work: Callable[[Any], Any]) -> str:
    """Speak to a provider as the engine does; gives gRPC's word for how it ended."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        try:
            work(stub)
        except grpc.RpcError as error:
            return str(error.code())
        return "done"


def test_nobody_runs_a_program_by_the_kubernetes_provider(layout: Layout, tmp_path: Path) -> None:
    """The attack: the exec plugin of a kubeconfig is run as the provider's user."""
    proof = tmp_path / "proof"
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{layout.ports.apiserver}"}}],
        "users": [
            {
                "name": "u",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "command": "sh",
                        "args": ["-c", f"id > {proof}"],
                    }
                },
            }
        ],
    }

    def attack(stub: Any) -> None:
        stub.Configure(provider_pb2.ConfigureRequest(args=encode({"kubeconfig": json.dumps(kubeconfig)})))
        urn = "urn:pulumi:dev::p::kubernetes:core/v1:ConfigMap::x"
        state = encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
        stub.Create(provider_pb2.CreateRequest(urn=urn, properties=state))

    port = layout.ports.kubernetes_provider
    assert as_nobody(lambda: provider(port, attack)) == "StatusCode.UNAVAILABLE"
    # The sandbox's own user is told that this is not its cluster's plugin: nothing is run either way.
    assert not proof.exists()


def test_nobody_changes_a_bucket_or_uploads_a_file_by_the_gcp_provider(layout: Layout) -> None:
    """The attack: a bucket made public, and a file of the owner's home uploaded as an asset."""

    def attack(stub: Any) -> None:
        args = encode({"project": layout.project, "region": "us-central1"})
        stub.Configure(provider_pb2.ConfigureRequest(args=args))
        urn = "urn:pulumi:dev::p::gcp:storage/bucket:Bucket::x"
        asset = encode({"name": "of-nobody", "location": "US", "forceDestroy": True})
        stub.Create(provider_pb2.CreateRequest(urn=urn, properties=asset))

    assert as_nobody(lambda: provider(layout.ports.gcp_provider, attack)) == "StatusCode.UNAVAILABLE"


def test_nobody_runs_a_program_by_the_language_host(layout: Layout) -> None:
    """The attack: the language host runs whatever program it is asked to, as its user."""
    environment = {**os.environ, **variables(layout), "PYTHONPATH": str(REPOSITORY / "infra")}
    command = [*ORDINARY, sys.executable, "-m", "encamp_sandbox.language_host", "127.0.0.1:1"]
    host = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)
    try:
        assert host.stdout is not None
        port = int(host.stdout.readline())
        assert set(as_nobody(lambda: tried(port))) <= {"nothing", "no handshake"}
    finally:
        host.terminate()
        host.communicate()


def test_folders_of_the_sandbox_are_closed(layout: Layout) -> None:
    def seen() -> list[str]:
        found = []
        for path in (layout.root, layout.pki, layout.run, layout.config_file, layout.google_credentials):
            with contextlib.suppress(OSError):
                path.stat()
                list(path.iterdir()) if path.is_dir() else path.read_bytes()
                found.append(str(path))
        return found

    assert as_nobody(seen) == []


def test_no_secret_stands_in_a_command_line(layout: Layout) -> None:
    """Every user sees the arguments of every process."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not any(layout.token in line for line in lines)
