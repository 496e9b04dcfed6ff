"""Where a request comes from: gateways are believed where they are trusted, and nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.test_strangers import entries, serving
from tests.api.test_wire import JOBS, ask, request
from tests.api.world import world

from encamp.api.addresses import Addresses

if TYPE_CHECKING:
    from pathlib import Path

#: A load balancer's proxies, its own address, and a proxy within.
TRUSTED = ("35.191.0.0/16", "34.117.10.20/32", "10.0.0.0/8", "fd00::/8")
CLIENT = "203.0.113.7"


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        (CLIENT, [], CLIENT),
        (CLIENT, ["198.51.100.1"], CLIENT),
        ("35.191.3.4", [], "35.191.3.4"),
        ("35.191.3.4", [CLIENT], CLIENT),
        ("35.191.3.4", [f"{CLIENT}, 34.117.10.20"], CLIENT),
        ("35.191.3.4", [f"198.51.100.1, {CLIENT}, 34.117.10.20"], CLIENT),
        ("35.191.3.4", ["198.51.100.1", f"{CLIENT},34.117.10.20"], CLIENT),
        ("35.191.3.4", [f"{CLIENT}:4711"], CLIENT),
        ("35.191.3.4", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("35.191.3.4", ["2001:db8::7"], "2001:db8::7"),
        ("35.191.3.4", [f"::ffff:{CLIENT}"], CLIENT),
        ("::ffff:35.191.3.4", [CLIENT], CLIENT),
        ("fd00::1", [f"{CLIENT}, 10.1.2.3"], CLIENT),
        # All hops are trusted: the one that was called first.
        ("35.191.3.4", ["10.1.2.3, 10.4.5.6"], "10.1.2.3"),
        # What cannot be read ends the chain: nothing left of it is believed.
        ("35.191.3.4", [f"{CLIENT}, nonsense, 34.117.10.20"], "34.117.10.20"),
        ("35.191.3.4", [f"{CLIENT}, unknown"], "35.191.3.4"),
        ("35.191.3.4", [""], "35.191.3.4"),
        ("", [CLIENT], ""),
    ],
)
def test_the_first_from_the_right_that_is_not_trusted(peer: str, forwarded: list[str], found: str) -> None:
    assert Addresses(TRUSTED).client(peer, forwarded) == found


@given(st.lists(st.text(max_size=60), max_size=5))
def test_what_a_client_writes_changes_nothing_of_what_its_gateway_appends(written: list[str]) -> None:
    assert Addresses(TRUSTED).client("35.191.3.4", [*written, CLIENT]) == CLIENT
    assert Addresses().client(CLIENT, written) == CLIENT


@given(st.lists(st.text(max_size=60), max_size=5))
def test_an_address_is_an_address_whatever_is_written(written: list[str]) -> None:
    found = Addresses(TRUSTED).client("35.191.3.4", written)
    assert Addresses(TRUSTED).client(found, []) == found


@pytest.mark.slow
@pytest.mark.parametrize(("trusted", "named"), [((), "127.0.0.1"), (("127.0.0.0/8",), CLIENT)])
def test_the_audit_log_names_whom_a_trusted_gateway_names(tmp_path: Path, trusted: tuple[str, ...], named: str) -> None:
    with world(tmp_path, trusted=trusted) as found:
        with serving(found) as address:
            sent = request("GET", JOBS, x_forwarded_for=f"198.51.100.1, {CLIENT}")
            assert ask(address, sent).code == 200
        (shown,) = entries(found)
    assert shown["requestMetadata"]["callerIp"] == named
