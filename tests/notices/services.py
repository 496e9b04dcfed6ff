"""Real services on loopback that take messages: a webhook and an SMTP server."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiosmtpd.smtp import SMTP, Envelope, LoginPassword, Session

#: Stands in every address: wherever it is found but in the service, a secret is out.
TOKEN = "t0kenOfTheService"  # noqa: S105 - of no service that there is


@dataclass
class Webhook:
    """A webhook: what it was sent, and how it answers.

    Attributes:
        status: its answer.
        delay: seconds until it answers.
    """

    port: int = 0
    status: int = 200
    delay: float = 0.0
    location: str | None = None
    taken: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"json://user:{TOKEN}@127.0.0.1:{self.port}/{TOKEN}/hook"

    def about(self, job: str) -> list[dict[str, Any]]:
        return [one for one in self.taken if f" {job} " in one["title"]]


@contextlib.contextmanager
def webhook() -> Iterator[Webhook]:
    """A webhook that listens."""
    service = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server has
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.paths.append(self.path)
            time.sleep(service.delay)
            if service.status < 300:
                service.taken.append(body)
            with contextlib.suppress(OSError):
                self.send_response(service.status)
                if service.location is not None:
                    self.send_header("Location", service.location)
                self.end_headers()

        do_GET = do_POST  # noqa: N815 - the name that http.server has

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class MailServer:
    """An SMTP server: the mails that it took, and how often somebody came with the right password."""

    port: int = 0
    let_in: int = 0
    mails: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        words = "smtp=127.0.0.1&from=encamp@lab.example&to=ana@lab.example&mode=insecure"
        return f"mailto://encamp:{TOKEN}@127.0.0.1:{self.port}?{words}"


@contextlib.contextmanager
def mail_server() -> Iterator[MailServer]:
    """An SMTP server that listens and lets one user in."""
    service = MailServer()

    class Handler:
        async def handle_DATA(  # noqa: N802 - the name that aiosmtpd has
            self, server: SMTP, session: Session, envelope: Envelope
        ) -> str:
            del server, session
            content = envelope.content or b""
            service.mails.append(content if isinstance(content, str) else content.decode())
            return "250 OK"

    def allowed(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword) -> AuthResult:
        del server, session, envelope, mechanism
        service.let_in += data.password == TOKEN.encode()
        return AuthResult(success=data.password == TOKEN.encode())

    with socket.create_server(("127.0.0.1", 0)) as free:
        service.port = free.getsockname()[1]
    controller = Controller(
        Handler(),
        hostname="127.0.0.1",
        port=service.port,
        authenticator=allowed,
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield service
    finally:
        controller.stop()
