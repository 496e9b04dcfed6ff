"""Messages to real services on loopback, by the process that sends them in production."""

from __future__ import annotations

import base64
import time
from email import message_from_string
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.notices.services import TOKEN, Webhook, mail_server, webhook

from encamp.cloud.rest import GoogleClient
from encamp.errors import EngineError, UsageError
from encamp.notices import sending
from encamp.notices.addresses import read_addresses
from encamp.notices.deliver import reason
from encamp.notices.sending import Message, send
from encamp.spec.environment.notices import NoticeTargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.slow

MESSAGE = Message("encamp: digits FAILED", "why: <b>it</b> & *that*\nmore: encamp logs digits", "failure")


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as service:
        yield service


def test_a_webhook_gets_title_text_and_kind(hook: Webhook) -> None:
    assert send({"team": hook.address}, MESSAGE)["team"].sent
    (taken,) = hook.taken
    assert (taken["title"], taken["message"], taken["type"]) == (MESSAGE.title, MESSAGE.body, "failure")
    assert hook.paths == [f"/{TOKEN}/hook"]


def test_a_mail_goes_through_a_real_mail_server() -> None:
    with mail_server() as server:
        assert send({"mail": server.address}, MESSAGE)["mail"].sent
    (mail,) = server.mails
    assert server.let_in == 1
    found = message_from_string(mail)
    assert found["Subject"] == MESSAGE.title
    assert found["To"] == "ana@lab.example"
    texts = [cast("bytes", part.get_payload(decode=True)).decode() for part in found.walk() if not part.is_multipart()]
    assert any("encamp logs digits" in text for text in texts)
    assert all(TOKEN not in text for text in (mail, *texts))


@pytest.mark.parametrize(("status", "why"), [(404, "the service answered 404"), (503, "the service answered 503")])
def test_what_a_service_answers_is_told_as_its_status_alone(hook: Webhook, status: int, why: str) -> None:
    hook.status = status
    assert send({"team": hook.address}, MESSAGE)["team"] == sending.Delivery(sent=False, why=why)
    assert len(hook.paths) == 2


def test_a_service_that_hangs_holds_up_nobody(hook: Webhook) -> None:
    """The library waits for 4 s, twice; where even that is too long, its process is ended."""
    hook.delay = 60.0
    begun = time.monotonic()
    with webhook() as other:
        results = send({"slow": hook.address, "quick": other.address}, MESSAGE)
    assert time.monotonic() - begun < sending.SECONDS + 10
    assert results["quick"].sent
    assert not results["slow"].sent
    assert send({"slow": hook.address}, MESSAGE, seconds=0.5)["slow"].why == "no answer within 0.5 s"


def test_nobody_is_led_on_to_another_address(hook: Webhook) -> None:
    with webhook() as other:
        hook.status, hook.location = 307, f"http://127.0.0.1:{other.port}/stolen"
        assert send({"team": hook.address}, MESSAGE)["team"].why == "the service answered 307"
    assert other.paths == []


def test_what_is_no_address_and_what_does_not_listen_are_told_without_the_address() -> None:
    results = send({"a": f"{TOKEN}", "b": f"json://127.0.0.1:1/{TOKEN}", "c": f"nosuch://{TOKEN}"}, MESSAGE)
    assert {name: one.why for name, one in results.items()} == {
        "a": "its address is no URL that Apprise takes",
        "b": "the service could not be reached",
        "c": "its address is no URL that Apprise takes",
    }


def test_a_reason_never_quotes_what_the_library_logged() -> None:
    lines = [f"Failed to send to https://example.com/{TOKEN}: {TOKEN}, error=401.", f"kept {TOKEN}"]
    assert reason(lines) == "the service answered 401"
    assert reason([f"A Connection error occurred at {TOKEN}"]) == "the service could not be reached"
    assert reason([f"no {TOKEN}"]) == "the service did not take it"


def test_an_address_stands_in_a_variable_of_the_targets_name() -> None:
    target = NoticeTargetSpec(name="team-chat")
    environ = {"ENCAMP_NOTICE_TEAM_CHAT": f" json://{TOKEN}\n"}
    assert read_addresses([target], GoogleClient(), environ) == {"team-chat": f"json://{TOKEN}"}
    error = read_addresses([target], GoogleClient(), {})["team-chat"]
    assert isinstance(error, UsageError)
    assert error.what == "ENCAMP_NOTICE_TEAM_CHAT is not set here"


class SecretManager:
    """Answers as Secret Manager does, belief secret-manager-access."""

    def __init__(self, payload: dict[str, Any], delay: float = 0.0) -> None:
        self.payload = payload
        self.delay = delay
        self.asked: list[str] = []

    def with_policy(self, *_: object) -> SecretManager:
        return self

    def json(self, service: str, method: str, path: str) -> dict[str, Any]:
        self.asked.append(f"{method} {service} {path}")
        time.sleep(self.delay)
        return {"name": path, "payload": self.payload}


@pytest.mark.parametrize(
    ("secret", "path"),
    [
        ("projects/p/secrets/s", "/v1/projects/p/secrets/s/versions/latest:access"),
        ("projects/p/secrets/s/versions/3", "/v1/projects/p/secrets/s/versions/3:access"),
    ],
)
def test_an_address_comes_from_secret_manager(secret: str, path: str) -> None:
    manager = SecretManager({"data": base64.b64encode(f"json://{TOKEN}\n".encode()).decode()})
    target = NoticeTargetSpec(name="a", secret=secret)
    found = read_addresses([target], cast("GoogleClient", manager), {"ENCAMP_NOTICE_A": "no"})
    assert found == {"a": f"json://{TOKEN}"}
    assert manager.asked == [f"GET secretmanager {path}"]


@pytest.mark.parametrize("payload", [{}, {"data": TOKEN + "!"}, {"data": base64.b64encode(b"\xff\xfe").decode()}])
def test_a_secret_that_is_no_text_is_not_quoted(payload: dict[str, Any]) -> None:
    target = NoticeTargetSpec(name="a", secret="projects/p/secrets/s")  # noqa: S106 - its name
    error = read_addresses([target], cast("GoogleClient", SecretManager(payload)), {})["a"]
    assert isinstance(error, EngineError)
    assert error.what == "the secret is no text"
    assert TOKEN not in str(error)
    assert error.__cause__ is None


def test_a_secret_manager_that_hangs_holds_up_nobody() -> None:
    slow = NoticeTargetSpec(name="slow", secret="projects/p/secrets/s")  # noqa: S106 - its name
    targets = [slow, NoticeTargetSpec(name="quick")]
    manager = cast("GoogleClient", SecretManager({}, delay=5.0))
    begun = time.monotonic()
    found = read_addresses(targets, manager, {"ENCAMP_NOTICE_QUICK": "json://x"}, seconds=0.3)
    assert time.monotonic() - begun < 4.0
    assert found["quick"] == "json://x"
    assert "no answer within 0.3 s" in str(found["slow"])
