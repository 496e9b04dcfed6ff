"""One job against another in the network: what a trainer reaches is what its network policy lets it reach."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml
from tests.main_job.job_files import write_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

#: Every replica listens as TensorFlow does; the master of the attacker looks for everybody else.
TRAINER = """
import json, os, socket, sys, threading, time, urllib.request

cluster = json.loads(os.environ["TF_CONFIG"])
listener = socket.create_server(("0.0.0.0", 2222))


def serve():
    while True:
        connection, _ = listener.accept()
        connection.sendall(b"at work")
        connection.close()


def reached(host, port, seconds=4):
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.settimeout(seconds)
            return True
    except OSError:
        return False


def own_replica():
    host, port = cluster["cluster"]["worker"][0].split(":")
    for _ in range(120):
        if reached(host, int(port)):
            return socket.gethostbyname(host)
        time.sleep(1)


def neighbours(own):
    found, lock = [], threading.Lock()

    def look(address):
        if address not in own and reached(address, 2222):
            with lock:
                found.append(address)

    threads = [threading.Thread(target=look, args=(f"10.8.0.{one}",)) for one in range(2, 60)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    return found


def storage():
    # Without a token it is refused, which takes an answer.
    try:
        urllib.request.urlopen("https://storage.googleapis.com/storage/v1/b/nobodys", timeout=20)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


threading.Thread(target=serve, daemon=True).start()
if sys.argv[1] == "serve" or cluster["task"]["type"] == "worker":
    print("listens")
    sys.stdout.flush()
    time.sleep(600)
else:
    given = json.loads(sys.argv[2])
    worker = own_replica()
    attempts = {
        "own replica": worker is not None,
        "storage": storage() in (401, 403, 404),
        "neighbours": neighbours({worker, socket.gethostbyname(socket.gethostname())}),
        "API server": reached("10.0.0.1", 443),
        "opened": reached(given["address"], given["port"]),
        "this machine": [port for port in given["ports"] if reached("127.0.0.1", port)],
    }
    print("attempts " + json.dumps(attempts))
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def host() -> Iterator[tuple[str, int]]:
    """Where a server beyond the sandbox listens: at an address of this machine that is not loopback."""
    cards = (one.address for card in psutil.net_if_addrs().values() for one in card if one.family is socket.AF_INET)
    address = next((one for one in cards if not one.startswith("127.")), None)
    assert address is not None, "this test takes an IPv4 address of this machine beside loopback"
    with socket.create_server((address, 0)) as server:
        yield address, server.getsockname()[1]


@pytest.fixture(scope="module")
def attempts(camps: Any, host: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the attacker reached while its victim was at work."""
    checkout = camps.copied_checkout(tmp_path_factory.mktemp("checkout"))
    stack = checkout / "stacks" / "Pulumi.sandbox.yaml"
    config = yaml.safe_load(stack.read_text())
    config["config"]["encamp:environment"]["jobEgress"] = [f"{host[0]}/32"]
    stack.write_text(yaml.safe_dump(config))
    folder = tmp_path_factory.mktemp("neighbours")
    said = tmp_path_factory.mktemp("said")
    with camps.opened_camp(tmp_path_factory.mktemp("camp") / "sb", said, checkout=checkout) as camp:
        yield attacked(camp, folder, host)


def attacked(camp: Camp, folder: Path, host: tuple[str, int]) -> dict[str, Any]:
    victim = camp.start("run", written(folder, "victim", "serve"), "--job-id", "victim")
    victim.until("listens", seconds=240)
    told = {"address": host[0], "port": host[1], "ports": [camp.layout.ports.apiserver, camp.layout.ports.etcd_client]}
    job = written(folder, "attacker", "attack", json.dumps(told), egress=[f"{host[0]}/32"])
    said = camp.encamp("run", job, "--job-id", "attacker")
    camp.encamp("cancel", "victim")
    line = next(line for line in said.splitlines() if "attempts {" in line)
    found: dict[str, Any] = json.loads(line[line.index("{") :])
    return found


def written(folder: Path, name: str, *args: str, **encamp: Any) -> str:
    """A job of a master and a worker that tell each other where they are."""
    (folder / name).mkdir()
    return write_job(
        folder / name,
        TRAINER,
        {"storage": {"kind": "ENVIRONMENT"}, **encamp},
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        workerType="n1-standard-4",
        workerCount=1,
        args=list(args),
    )


def test_a_trainer_reaches_its_own_replicas_and_googles_apis(attempts: dict[str, Any]) -> None:
    assert attempts["own replica"]
    assert attempts["storage"]


def test_no_replica_of_another_job_is_reached(attempts: dict[str, Any]) -> None:
    assert attempts["neighbours"] == []


def test_the_api_server_and_this_machine_are_not_reached(attempts: dict[str, Any]) -> None:
    assert not attempts["API server"]
    assert attempts["this machine"] == []


def test_a_host_that_the_job_opens_is_reached(attempts: dict[str, Any]) -> None:
    assert attempts["opened"]
