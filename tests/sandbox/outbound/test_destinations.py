"""Where pods may connect to, and what the owner of the machine configured for pip."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.kubelet.network_policy.evaluation import Evaluation, PolicyPod
from encamp_sandbox.outbound.destinations import Public, RefusedError, own_addresses, refusal
from encamp_sandbox.outbound.owner import OwnerIndexes, owner_indexes, pip_setting

if TYPE_CHECKING:
    from pathlib import Path

OWN = frozenset({ipaddress.ip_address("93.184.215.14"), ipaddress.ip_address("2606:2800::1")})


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 - refused
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "93.184.215.14",
        "::",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "ff02::1",
        "2606:2800::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:93.184.215.14",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:7f00:1::",
    ],
)
def test_addresses_of_this_machine_and_its_networks_are_refused(address: str) -> None:
    assert refusal(address, OWN)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_public_addresses_are_not(address: str) -> None:
    assert refusal(address, OWN) is None


def test_a_mirror_at_a_private_address_is_reached_and_this_machine_is_not() -> None:
    assert refusal("10.1.2.3", OWN, private=True) is None
    for address in ("127.0.0.1", "169.254.169.254", "93.184.215.14", "::ffff:127.0.0.1", "64:ff9b::7f00:1"):
        assert refusal(address, OWN, private=True)


def reached(host: str, port: int, indexes: OwnerIndexes | None = None) -> list[str]:
    return asyncio.run(Public(indexes or OwnerIndexes(), own_addresses).addresses(host, port))


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "0", "::1", socket.gethostname()])
def test_names_and_numbers_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises((RefusedError, OSError)):
        reached(host, 443)


@pytest.mark.parametrize("port", [22, 2379, 8080, 17000])
def test_only_the_webs_ports_are_reached(port: int) -> None:
    with pytest.raises(RefusedError, match=f"not {port}"):
        reached("8.8.8.8", port)


def test_of_a_names_addresses_the_public_ones_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, 1, 6, "", (place, 443)) for place in ("127.0.0.1", "8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", both)
    assert reached("both.example.com", 443) == ["8.8.8.8"]


def test_what_the_owner_configured_is_reached_by_name_and_port() -> None:
    indexes = OwnerIndexes(frozenset({("localhost", 3141)}))
    assert "127.0.0.1" in reached("localhost", 3141, indexes)
    for host, port in (("localhost", 3142), ("localhost", 443), ("127.0.0.1", 3141)):
        with pytest.raises(RefusedError):
            reached(host, port, indexes)


def test_the_owners_configuration_is_pips(tmp_path: Path) -> None:
    config = tmp_path / "config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text("[global]\nindex-url = https://user:secret@mirror.corp/simple\n[install]\nfind-links = /wheels\n")
    (tmp_path / "mine.conf").write_text("no ini file")
    variables = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PIP_EXTRA_INDEX_URL": "http://localhost:3141/root/pypi https://other.corp:8443/simple https://[bad",
        "PIP_CONFIG_FILE": str(tmp_path / "mine.conf"),
    }
    found = owner_indexes(variables)
    assert {("mirror.corp", 443), ("localhost", 3141), ("other.corp", 8443)} <= found.named
    assert ("pypi.org", 443) in found.usual
    asked = [pip_setting(variables, key) for key in ("index-url", "find-links", "no-such-setting")]
    assert asked == ["https://user:secret@mirror.corp/simple", "/wheels", ""]
    assert pip_setting({**variables, "PIP_FIND_LINKS": "/others"}, "find-links") == "/others"


def ruled(host: str, port: int, *blocks: str, indexes: OwnerIndexes | None = None, **rule: Any) -> list[str]:
    """Addresses that a pod reaches whose only policy opens blocks of addresses."""
    spec: dict[str, Any] = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": one}} for one in blocks], **rule}],
    }
    policy = {"metadata": {"namespace": "n"}, "spec": spec}
    pod = PolicyPod("n", {}, "10.8.0.2")
    rules = Evaluation([policy] if blocks else [SHUT], [pod], {}, "10.8.0.0/16").rules(pod)
    public = Public(indexes or OwnerIndexes(), lambda: OWN, lambda _: rules)
    return asyncio.run(public.addresses(host, port, "10.8.0.2"))


SHUT: dict[str, Any] = {"metadata": {"namespace": "n"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
WEB = ("0.0.0.0/0",)
LAN = "10.4.0.0/16"
OWN_ADDRESS = "93.184.215.14"


@pytest.mark.parametrize(
    ("host", "port", "blocks"),
    [
        ("8.8.8.8", 443, WEB),
        ("8.8.8.8", 5432, ("8.8.8.0/24",)),
        ("10.4.0.7", 5432, (LAN,)),
        ("10.4.0.7", 443, (LAN,)),
        (OWN_ADDRESS, 5432, (f"{OWN_ADDRESS}/32",)),
    ],
)
def test_what_policies_open_is_reached(host: str, port: int, blocks: tuple[str, ...]) -> None:
    assert ruled(host, port, *blocks) == [host]


@pytest.mark.parametrize(
    ("host", "port", "blocks", "why"),
    [
        ("8.8.8.8", 443, (), "policies"),
        ("8.8.8.8", 443, (LAN,), "policies"),
        ("8.8.8.8", 5432, WEB, "ports 80 and 443"),
        ("10.4.0.7", 443, WEB, "private"),
        ("10.5.0.7", 443, (LAN,), "private"),
        (OWN_ADDRESS, 443, WEB, "this machine"),
        (OWN_ADDRESS, 443, ("93.184.215.0/24",), "this machine"),
        ("127.0.0.1", 443, ("127.0.0.1/32",), "this machine"),
        ("169.254.169.254", 80, ("169.254.169.254/32",), "own network"),
        ("10.8.0.3", 443, ("10.8.0.0/16", "10.8.0.3/32"), "private"),
        ("::ffff:10.4.0.7", 443, (LAN,), "private"),
    ],
)
def test_what_policies_close_or_no_pod_may_is_not(host: str, port: int, blocks: tuple[str, ...], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        ruled(host, port, *blocks)


def test_an_index_of_packages_is_judged_as_pypi() -> None:
    indexes = OwnerIndexes(frozenset({("localhost", 3141)}))
    assert "127.0.0.1" in ruled("localhost", 3141, *WEB, indexes=indexes, ports=[{"port": 443}])
    closed: list[tuple[tuple[str, ...], list[Any]]] = [((), []), ((LAN,), []), (WEB, [{"port": 80}])]
    for blocks, ports in closed:
        with pytest.raises(RefusedError, match=r"as pypi\.org"):
            ruled("localhost", 3141, *blocks, indexes=indexes, ports=ports)
    with pytest.raises(RefusedError, match=r"as pypi\.org"):
        ruled("pypi.org", 443, LAN)
