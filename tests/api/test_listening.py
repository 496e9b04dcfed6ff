"""Where the service may listen: judged by what a host stands for, not by how it is written."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from encamp.api.listening import is_loopback, listen
from encamp.errors import UsageError

#: Every address of this machine.
EVERY = "0.0.0.0"  # noqa: S104 - what is refused, or is asked for with credentials

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a name stand for addresses."""

    def names(*addresses: str) -> None:
        def look_up(_: str, port: int, **__: Any) -> list[Any]:
            families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in addresses]
            places = [(one, port) if ":" not in one else (one, port, 0, 0) for one in addresses]
            return [(family, socket.SOCK_STREAM, 6, "", place) for family, place in zip(families, places, strict=True)]

        monkeypatch.setattr("encamp.api.listening.socket.getaddrinfo", look_up)

    return names


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_loopback_is_this_machine_alone(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "host", [EVERY, "0", "::", "::0", "::ffff:0.0.0.0", "::ffff:10.1.2.3", "192.0.2.1", "2001:db8::1"]
)
def test_nobody_listens_wider_without_credentials(host: str) -> None:
    with pytest.raises(UsageError, match="no credentials") as refused:
        listen(host, 0, credentials=False)
    assert "--no-credentials" in str(refused.value.hint)


def test_a_name_that_leads_wider_at_any_address_is_refused(named: Callable[..., None]) -> None:
    named("127.0.0.1", "10.1.2.3")
    with pytest.raises(UsageError, match=r"10\.1\.2\.3 can be reached by others"):
        listen("laptop", 0, credentials=False)


@pytest.mark.parametrize("host", ["", "  "])
def test_an_empty_host_would_be_every_address(host: str) -> None:
    with pytest.raises(UsageError, match="every address"):
        listen(host, 0, credentials=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "localhost"])
def test_loopback_takes_no_credentials_however_it_is_written(host: str) -> None:
    found = listen(host, 0, credentials=False)
    try:
        assert all(is_loopback(str(sock.getsockname()[0])) for sock in found.sockets)
        assert len({sock.getsockname()[1] for sock in found.sockets}) == 1
        assert found.url in {f"http://{address}" for address in found.addresses}
    finally:
        found.close()


def test_with_credentials_every_address_is_called_by_one_of_this_machine() -> None:
    found = listen(EVERY, 0, credentials=True)
    try:
        (address,) = found.addresses
        assert address.startswith(f"{EVERY}:")
        assert found.url == f"http://127.0.0.1:{address.partition(':')[2]}"
    finally:
        found.close()


def test_a_taken_port_is_said_to_be() -> None:
    first = listen("127.0.0.1", 0, credentials=False)
    port = first.sockets[0].getsockname()[1]
    try:
        with pytest.raises(UsageError, match="another program listens there already") as refused:
            listen("127.0.0.1", port, credentials=False)
        assert refused.value.where == f"127.0.0.1:{port}"
    finally:
        first.close()
    listen("127.0.0.1", port, credentials=False).close()


def test_an_address_that_this_machine_has_not_is_left_out_of_a_name(named: Callable[..., None]) -> None:
    named("192.0.2.1", "127.0.0.1")
    found = listen("laptop", 0, credentials=True)
    found.close()
    assert [address.partition(":")[0] for address in found.url.removeprefix("http://").split()] == ["127.0.0.1"]
    named("192.0.2.1")
    with pytest.raises(UsageError, match="no address of this machine"):
        listen("laptop", 0, credentials=True)


def test_a_name_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr("encamp.api.listening.socket.getaddrinfo", look_up)
    with pytest.raises(UsageError, match="cannot be looked up"):
        listen("nowhere.invalid", 0, credentials=True)
