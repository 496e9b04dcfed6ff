"""Network policies of pods in a live cluster: what a hostile pod reaches, and what it goes on reaching."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.job_cases import job_case
from tests.plan.planned import plan_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sandbox

OTHERS = "others"
#: Listens at ports until it is ended; names its address.
SERVER = """
import select, socket, sys
both = socket.has_dualstack_ipv6()
family = socket.AF_INET6 if both else socket.AF_INET
servers = [socket.create_server(("", int(port)), family=family, dualstack_ipv6=both) for port in sys.argv[1:]]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 5353))
print("listens", flush=True)
while True:
    for one in select.select([*servers, udp], [], [])[0]:
        if one is udp:
            udp.sendto(b"heard", udp.recvfrom(100)[1])
        else:
            one.accept()[0].close()
"""
#: Tries each ``[name, kind, address, port]`` of its argument again and again; says what it reached when that changes.
CLIENT = """
import json, socket, sys, threading, time

def tcp(address, port):
    with socket.create_connection((address, port), timeout=3):
        return True

def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(3)
        sock.sendto(b"hello", (address, port))
        return sock.recv(100) == b"heard"

def link(address, port):  # IPv6 of the pods' own network, which nobody gave them
    place = socket.getaddrinfo(address + "%eth0", port, type=socket.SOCK_STREAM)[0][4]
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
        sock.settimeout(3)
        sock.connect(place)
        return True

def proxy(address, port):
    with socket.create_connection(("10.8.0.1", 3128), timeout=9) as sock:
        sock.sendall(f"CONNECT {address}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
        try:
            return sock.recv(200).split()[1] != b"403"
        except TimeoutError:  # it tries, where this machine has no way there
            return True

def tried(found, name, kind, address, port):
    try:
        found[name] = globals()[kind](address, int(port))
    except OSError:
        found[name] = False

attempts = json.loads(sys.argv[1])
last = None
while True:
    found = {}
    threads = [threading.Thread(target=tried, args=(found, *one)) for one in attempts]
    [one.start() for one in threads]
    [one.join() for one in threads]
    if found != last:
        print("reached " + json.dumps(found, sort_keys=True), flush=True)
    last = found
    time.sleep(0.1)
"""


class World:
    """Pods of a test, by name."""

    def __init__(self, cluster: Any, until: Callable[..., None]) -> None:
        self.cluster = cluster
        self.until = until
        self.started: list[tuple[str, str]] = []

    def start(self, name: str, script: str, *args: str, namespace: str = "trials", **labels: str) -> str:
        """Start a pod and give its address once its first line is out."""
        ports = [{"name": "served", "containerPort": 2222}]
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"encamp-pool": "small"},
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "replica",
                        "image": "trainer",
                        "command": ["python", "-c", script, *args],
                        "ports": ports,
                        "resources": {"requests": {"cpu": "50m"}},
                    }
                ],
            },
        }
        self.cluster.create(f"/api/v1/namespaces/{namespace}/pods", body)
        self.started.append((namespace, name))
        self.until(lambda: self.own_lines(name, namespace))
        return str(self.object(name, namespace)["status"]["podIP"])

    def object(self, name: str, namespace: str = "trials") -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found

    def log(self, name: str, namespace: str = "trials") -> str:
        answer = self.cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}/log")
        return str(answer.text) if answer.is_success else ""

    def own_lines(self, name: str, namespace: str = "trials") -> list[str]:
        """What the pod said itself; the log also holds what encamp says of its connections."""
        return [line for line in self.log(name, namespace).splitlines() if not line.startswith("encamp: ")]

    def reached(self, name: str) -> dict[str, bool]:
        lines = self.own_lines(name)
        found: dict[str, bool] = json.loads(lines[-1].removeprefix("reached "))
        return found

    def apply(self, policy: dict[str, Any], namespace: str = "trials") -> str:
        path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        made = self.cluster.create(path, policy | {"metadata": {"name": policy["metadata"]["name"]}})
        return f"{path}/{made['metadata']['name']}"


@pytest.fixture
def others(cluster: Any, until: Callable[..., None]) -> None:
    """A namespace of drivers and databases."""
    if cluster.get(f"/api/v1/namespaces/{OTHERS}") is None:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": OTHERS}})
    until(lambda: cluster.get(f"/api/v1/namespaces/{OTHERS}/serviceaccounts/default"))


@pytest.fixture
def world(cluster: Any, others: None, until: Callable[..., None]) -> Iterator[World]:
    del others
    made = World(cluster, until)
    yield made
    for namespace, name in made.started:
        cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    for namespace in ("trials", OTHERS):
        cluster.api.delete(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
    until(lambda: all(world_is_gone(cluster, *one) for one in made.started))


def world_is_gone(cluster: Any, namespace: str, name: str) -> bool:
    return cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}") is None


@pytest.fixture
def host() -> Iterator[tuple[str, int, int]]:
    """Where servers beyond the sandbox listen: an address of this machine that is not loopback, and two ports."""
    cards = (one.address for card in psutil.net_if_addrs().values() for one in card if one.family is socket.AF_INET)
    address = next((one for one in cards if not one.startswith("127.")), None)
    assert address is not None, "this test takes an IPv4 address of this machine beside loopback"
    with socket.create_server((address, 0)) as one, socket.create_server((address, 0)) as other:
        yield address, one.getsockname()[1], other.getsockname()[1]


def policy_of_a_job(name: str, *opened: str) -> dict[str, Any]:
    """The policy that the plan makes for a job, for another job's name."""
    planned = plan_case(job_case("basic-bare"))
    policy = json.loads(json.dumps(planned.manifests.network_policy).replace(planned.plan.name, name))
    if opened:
        policy["spec"]["egress"].append({"to": [{"ipBlock": {"cidr": one}} for one in opened]})
    found: dict[str, Any] = policy
    return found


def test_a_hostile_replica_reaches_its_own_job_and_nobody_else(world: World, host: tuple[str, int, int]) -> None:
    machine, opened, closed = host
    for job, blocks in (("mine", (f"{machine}/32",)), ("theirs", ())):
        world.apply(policy_of_a_job(job, *blocks))
    own = world.start("own", SERVER, "2222", **{"encamp-job": "mine"})
    victim = world.start("victim", SERVER, "2222", **{"encamp-job": "theirs"})
    database = world.start("database", SERVER, "5432", "8443", namespace=OTHERS)
    attempts = [
        ("own replica", "tcp", own, 2222),
        ("own replica, any port", "udp", own, 5353),
        ("another job", "tcp", victim, 2222),
        ("another job by UDP", "udp", victim, 5353),
        ("the record", "tcp", database, 5432),
        ("the driver", "tcp", database, 8443),
        ("the API server", "tcp", "10.0.0.1", 443),
        ("the proxy to the API server", "proxy", "10.0.0.1", 443),
        ("metadata", "tcp", "169.254.169.254", 80),
        ("metadata's address elsewhere", "tcp", "169.254.169.254", 443),
        ("Google's APIs", "tcp", "199.36.153.8", 443),
        ("Google's APIs by the proxy", "proxy", "storage.googleapis.com", 443),
        ("the front's old place", "tcp", "10.8.0.1", 443),
        ("what the job opens", "tcp", machine, opened),
        ("what the job opens by the proxy", "proxy", machine, opened),
        ("loopback of the machine by the proxy", "proxy", "127.0.0.1", world.cluster.layout.ports.apiserver),
        ("the web by the proxy", "proxy", "1.1.1.1", 443),
        ("the web's other ports by the proxy", "proxy", "1.1.1.1", 25),
    ]
    world.start("hostile", CLIENT, json.dumps(attempts), **{"encamp-job": "mine"})
    assert {name for name, won in world.reached("hostile").items() if won} == {
        "own replica",
        "own replica, any port",
        "metadata",
        "Google's APIs",
        "Google's APIs by the proxy",
        "what the job opens",
        "what the job opens by the proxy",
        "the web by the proxy",
    }
    said = world.log("hostile")
    assert f"encamp: connected to {machine}:{opened}" in said
    assert "encamp: no connection to 10.0.0.1:443" in said
    assert str(closed) not in said


def test_rules_follow_policies_and_pods_that_come_and_go(world: World) -> None:
    served = world.start("served", SERVER, "2222", "2223", role="server")
    attempts = [("2222", "tcp", served, 2222), ("2223", "tcp", served, 2223), ("udp", "udp", served, 5353)]
    world.start("client", CLIENT, json.dumps(attempts), role="client")

    def becomes(*names: str) -> None:
        world.until(lambda: {name for name, won in world.reached("client").items() if won} == set(names), 30)

    becomes("2222", "2223", "udp")
    everything = {"podSelector": {"matchLabels": {"role": "server"}}, "policyTypes": ["Ingress"]}
    closed = world.apply({"metadata": {"name": "closed"}, "spec": everything})
    becomes()
    clients = [{"podSelector": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["client"]}]}}]
    rule = {"from": clients, "ports": [{"port": "served"}]}
    opened = world.apply({"metadata": {"name": "opened"}, "spec": everything | {"ingress": [rule]}})
    becomes("2222")  # policies add up
    world.cluster.api.patch(
        "/api/v1/namespaces/trials/pods/client",
        json={"metadata": {"labels": {"role": "nobody"}}},
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    becomes()
    world.cluster.api.patch(
        "/api/v1/namespaces/trials",
        json={"metadata": {"labels": {"trusted": "yes"}}},
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    trusted = [{"namespaceSelector": {"matchLabels": {"trusted": "yes"}}}]
    rule = {"from": trusted, "ports": [{"port": 2222, "endPort": 2223}, {"protocol": "UDP", "port": 5353}]}
    world.apply({"metadata": {"name": "namespaces"}, "spec": everything | {"ingress": [rule]}})
    becomes("2222", "2223", "udp")
    for path in (opened, closed):
        world.cluster.api.delete(path).raise_for_status()
    becomes("2222", "2223", "udp")


def test_a_pod_is_isolated_before_its_first_process_starts(world: World) -> None:
    served = world.start("served", SERVER, "2222")
    world.apply({"metadata": {"name": "shut"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}})
    first = "import socket, sys, time\ns = socket.socket()\ns.settimeout(4)\n"
    first += "print('reached', s.connect_ex((sys.argv[1], 2222)) == 0, flush=True)\ntime.sleep(600)"
    names = [f"first-{number}" for number in range(4)]
    for name in names:
        world.start(name, first, served)
    assert [world.own_lines(name)[0] for name in names] == ["reached False"] * 4


def test_no_way_around_by_addresses_that_nobody_gave(world: World) -> None:
    show = "import sys; print([line.split()[0] for line in open('/proc/net/if_inet6') if 'eth0' in line], flush=True)\n"
    world.start("served", show + SERVER, "2222", role="server")
    found = json.loads(world.log("served").splitlines()[0].replace("'", '"'))
    if not found:  # a machine without IPv6 has no such way
        return
    text = ":".join(found[0][at : at + 4] for at in range(0, 32, 4))
    world.start("before", CLIENT, json.dumps([("link", "link", text, 2222)]))
    world.until(lambda: world.reached("before") == {"link": True}, 30)
    world.apply({"metadata": {"name": "closed"}, "spec": {"podSelector": {"matchLabels": {"role": "server"}}}})
    world.until(lambda: world.reached("before") == {"link": False}, 30)
