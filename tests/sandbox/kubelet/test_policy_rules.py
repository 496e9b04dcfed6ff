"""What network policies allow: selectors, blocks and ports, and any policies against a slow reading of them."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp_sandbox.kubelet.network_policy.evaluation import Evaluation, PolicyPod
from encamp_sandbox.kubelet.network_policy.rules import Allowed, PodRules, Ports, Span, merged, without

NETWORK = "10.8.0.0/16"
SPACES = {"jobs": {"kubernetes.io/metadata.name": "jobs", "team": "a"}, "drivers": {"team": "b"}, "bare": {}}
OWN = PolicyPod("jobs", {"job": "mine"}, "10.8.0.2", {("web", "TCP"): 8080})
PEER = PolicyPod("jobs", {"job": "mine", "role": "worker"}, "10.8.0.3", {("web", "TCP"): 8081, ("dns", "UDP"): 53})
OTHER = PolicyPod("jobs", {"job": "theirs"}, "10.8.0.4", {("web", "TCP"): 8082})
DRIVER = PolicyPod("drivers", {"app": "driver"}, "10.8.0.5")
HOSTED = PolicyPod("jobs", {"job": "mine"}, "10.8.0.6", on_host=True)
PODS = [OWN, PEER, OTHER, DRIVER, HOSTED]
WEB, LAN = "8.8.8.8", "10.4.0.7"
PLACES = {"peer": PEER.address, "other": OTHER.address, "driver": DRIVER.address, "web": WEB, "lan": LAN}


def policy(namespace: str = "jobs", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": {}, **spec}}


def rules(*policies: dict[str, Any], pod: PolicyPod = OWN) -> PodRules:
    return Evaluation(policies, PODS, SPACES, NETWORK).rules(pod)


def reached(found: PodRules, port: int = 443, protocol: str = "TCP") -> set[str]:
    return {name for name, address in PLACES.items() if found.lets_out(address, port, protocol)}


def labels(**wanted: str) -> dict[str, Any]:
    return {"matchLabels": wanted}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("peer", "names"),
    [
        ({"podSelector": labels(job="mine")}, {"peer"}),
        ({"podSelector": {}}, {"peer", "other"}),
        ({"podSelector": expression("job", "In", "mine", "theirs")}, {"peer", "other"}),
        ({"podSelector": expression("job", "NotIn", "mine")}, {"other"}),
        ({"podSelector": expression("role", "Exists")}, {"peer"}),
        ({"podSelector": expression("role", "DoesNotExist")}, {"other"}),
        ({"podSelector": expression("app", "Exists")}, set()),
        ({"namespaceSelector": {}}, {"peer", "other", "driver"}),
        ({"namespaceSelector": labels(team="b")}, {"driver"}),
        ({"namespaceSelector": labels(team="b"), "podSelector": labels(app="driver")}, {"driver"}),
        ({"namespaceSelector": labels(team="b"), "podSelector": labels(app="database")}, set()),
        ({"namespaceSelector": expression("team", "NotIn", "a")}, {"driver"}),
        ({"namespaceSelector": labels(team="none")}, set()),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, {"web", "lan"}),
        ({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}, {"web"}),
        ({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["8.8.8.0/25", "8.8.8.128/25"]}}, {"lan"}),
        ({"ipBlock": {"cidr": "10.4.0.7/32"}}, {"lan"}),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, {"lan"}),
        ({"ipBlock": {"cidr": "10.8.0.3/32"}}, set()),
        ({"ipBlock": {"cidr": "::/0"}}, set()),
    ],
)
def test_peers(peer: dict[str, Any], names: set[str]) -> None:
    assert reached(rules(policy(policyTypes=["Egress"], egress=[{"to": [peer]}]))) == names
    inward = rules(policy(policyTypes=["Ingress"], ingress=[{"from": [peer]}]))
    assert {name for name, address in PLACES.items() if inward.lets_in(address, 443)} == names


@pytest.mark.parametrize(
    ("ports", "allowed", "refused"),
    [
        ([], [(1, "TCP"), (53, "UDP"), (9, "SCTP")], []),
        ([{}], [(1, "TCP")], [(1, "UDP")]),
        ([{"port": 443}], [(443, "TCP")], [(443, "UDP"), (444, "TCP"), (442, "TCP")]),
        ([{"port": 443, "protocol": "UDP"}], [(443, "UDP")], [(443, "TCP")]),
        ([{"protocol": "UDP"}], [(1, "UDP"), (65535, "UDP")], [(1, "TCP")]),
        ([{"port": 80, "endPort": 90}], [(80, "TCP"), (90, "TCP")], [(79, "TCP"), (91, "TCP")]),
        ([{"port": 80}, {"port": 443}], [(80, "TCP"), (443, "TCP")], [(81, "TCP")]),
        ([{"port": "web"}], [(8081, "TCP")], [(8080, "TCP"), (8082, "TCP"), (8081, "UDP")]),
        ([{"port": "dns", "protocol": "UDP"}], [(53, "UDP")], [(53, "TCP")]),
        ([{"port": "dns"}], [], [(53, "UDP"), (53, "TCP")]),
        ([{"port": "web"}, {"port": 9}], [(8081, "TCP"), (9, "TCP")], [(8080, "TCP")]),
    ],
)
def test_ports(ports: list[Any], allowed: list[tuple[int, str]], refused: list[tuple[int, str]]) -> None:
    """Names are of the ports of whoever is connected to."""
    found = rules(
        policy(policyTypes=["Egress"], egress=[{"to": [{"podSelector": labels(job="mine")}], "ports": ports}])
    )
    assert all("peer" in reached(found, *each) for each in allowed)
    assert not any("peer" in reached(found, *each) for each in refused)
    assert not any("other" in reached(found, *each) for each in allowed)


def test_names_of_ports_are_of_the_pod_that_is_connected_to() -> None:
    inward = rules(policy(policyTypes=["Ingress"], ingress=[{"ports": [{"port": "web"}]}]))
    assert inward.lets_in(DRIVER.address, 8080)
    assert inward.lets_in("fe80::1", 8080)
    assert not inward.lets_in(DRIVER.address, 8081)
    outward = rules(policy(policyTypes=["Egress"], egress=[{"ports": [{"port": "web"}]}]))
    assert (reached(outward, 8081), reached(outward, 8082)) == ({"peer"}, {"other"})
    block = {"to": [{"ipBlock": {"cidr": "10.4.0.0/16"}}], "ports": [{"port": "web"}]}
    assert reached(rules(policy(policyTypes=["Egress"], egress=[block])), 8080) == set()


@pytest.mark.parametrize(
    ("spec", "ways"),
    [
        ({}, "open out"),
        ({"policyTypes": ["Ingress"]}, "open out"),
        ({"policyTypes": ["Egress"]}, "open in"),
        ({"policyTypes": ["Ingress", "Egress"]}, ""),
        ({"egress": [{}]}, "open out"),
        ({"ingress": [{}]}, "open in open out"),
        ({"policyTypes": ["Ingress"], "egress": []}, "open out"),
        ({"policyTypes": ["Ingress", "Egress"], "egress": [{}]}, "open out"),
        ({"podSelector": labels(job="theirs")}, "open in open out"),
    ],
)
def test_directions(spec: dict[str, Any], ways: str) -> None:
    """Without policyTypes a policy speaks of ingress, and of egress where it has such rules."""
    found = rules(policy(**spec))
    said = {"open in": found.lets_in(WEB, 1), "open out": found.lets_out(WEB, 1)}
    assert " ".join(way for way, is_open in said.items() if is_open) == ways


def test_policies_add_up_and_are_of_their_own_namespace() -> None:
    first = policy(policyTypes=["Egress"], egress=[{"to": [{"podSelector": labels(job="mine")}]}])
    second = policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": {"cidr": "8.8.8.8/32"}}]}])
    elsewhere = policy("drivers", policyTypes=["Egress"], egress=[{}])
    assert reached(rules(first, second, elsewhere)) == {"peer", "web"}
    assert reached(rules(elsewhere)) == set(PLACES)


def test_pods_on_their_nodes_network_are_no_pods_to_policies() -> None:
    shut = policy(policyTypes=["Ingress", "Egress"])
    assert rules(shut, pod=HOSTED) == PodRules()
    everybody = rules(policy(policyTypes=["Egress"], egress=[{"to": [{"namespaceSelector": {}}]}]))
    assert not everybody.lets_out(HOSTED.address, 1)


def test_networks_that_are_named() -> None:
    blocks = ["10.4.0.0/16", "10.9.9.9/32", "0.0.0.0/0", "169.254.169.254/32", "::/0"]
    found = rules(policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": {"cidr": one}} for one in blocks]}]))
    assert [found.names(one) for one in (LAN, "10.9.9.9", WEB, "169.254.169.254", "::1")] == [True, True, *[False] * 3]
    assert [found.names_alone(one) for one in (LAN, "10.9.9.9", WEB, "::1")] == [False, True, False, False]
    ignored = policy(policyTypes=["Ingress"], egress=[{"to": [{"ipBlock": {"cidr": "10.4.0.0/16"}}]}])
    assert not rules(ignored).names(LAN)


def test_spans() -> None:
    assert merged([Span(5, 6), Span(1, 2), Span(3, 4), Span(9, 9), Span(5, 8)]) == (Span(1, 9),)
    assert merged([Span(1, 2), Span(4, 5)]) == (Span(1, 2), Span(4, 5))
    assert without(Span(0, 9), [Span(0, 0), Span(3, 4), Span(9, 20)]) == (Span(1, 2), Span(5, 8))
    assert without(Span(3, 4), [Span(0, 9)]) == ()
    assert Allowed((Span(1, 2),), (Ports("TCP", 5, 6),)).holds(2, "TCP", 6)


# Any policies, read a second time by what the API's documentation says, one connection at a time.
KEYS, VALUES = ("a", "b"), ("1", "2")
label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
    }
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchLabels": label_sets, "matchExpressions": st.lists(expressions, max_size=2)}
)


def cidr(address: str, length: int) -> str:
    return str(ipaddress.ip_network((address, length), strict=False))


cidrs = st.builds(
    cidr,
    st.sampled_from(["10.8.0.3", "10.4.0.7", "8.8.8.8", "9.9.9.9"]),
    st.sampled_from([0, 1, 8, 16, 24, 31, 32]),
)
peers = st.one_of(
    st.fixed_dictionaries({"podSelector": selectors}, optional={"namespaceSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": selectors}),
    st.fixed_dictionaries({"ipBlock": st.fixed_dictionaries({"cidr": cidrs, "except": st.lists(cidrs, max_size=2)})}),
)
port_numbers = st.sampled_from([79, 80, 81, 443])
port_rules = st.one_of(
    st.fixed_dictionaries({}, optional={"protocol": st.sampled_from(["TCP", "UDP"])}),
    st.fixed_dictionaries(
        {"port": st.sampled_from(["web", 80, 443])}, optional={"protocol": st.sampled_from(["TCP", "UDP"])}
    ),
    st.fixed_dictionaries({"port": st.just(79), "endPort": port_numbers}),
)


def lifted(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": spec}


drawn_policies = st.lists(
    st.builds(
        lifted,
        st.sampled_from(["x", "y"]),
        st.fixed_dictionaries(
            {"podSelector": selectors},
            optional={
                "policyTypes": st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, max_size=2, unique=True),
                "ingress": st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"from": st.lists(peers, max_size=2), "ports": st.lists(port_rules, max_size=2)}
                    ),
                    max_size=2,
                ),
                "egress": st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"to": st.lists(peers, max_size=2), "ports": st.lists(port_rules, max_size=2)}
                    ),
                    max_size=2,
                ),
            },
        ),
    ),
    max_size=3,
)
NO_PORTS: dict[tuple[str, str], int] = {}
drawn_pods = st.lists(
    st.tuples(
        st.sampled_from(["x", "y"]),
        label_sets,
        st.sampled_from([NO_PORTS, {("web", "TCP"): 80}, {("web", "UDP"): 443}]),
    ),
    min_size=2,
    max_size=4,
).map(
    lambda all_: [
        PolicyPod(space, own, f"10.8.0.{number}", ports) for number, (space, own, ports) in enumerate(all_, 2)
    ]
)


def oracle_selects(selector: dict[str, Any], own: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {}).items() <= own.items()
    return wanted and all(oracle_fulfils(one, own) for one in selector.get("matchExpressions", []))


def oracle_fulfils(expression: dict[str, Any], own: dict[str, str]) -> bool:
    has = expression["key"] in own
    listed = has and own[expression["key"]] in expression["values"]
    return {"In": listed, "NotIn": not listed, "Exists": has, "DoesNotExist": not has}[expression["operator"]]


def oracle_peer(peer: dict[str, Any], end: PolicyPod | str, own: str, spaces: dict[str, dict[str, str]]) -> bool:
    if isinstance(end, str):
        block = peer.get("ipBlock")
        address = ipaddress.ip_address(end)
        return (
            block is not None
            and address in ipaddress.ip_network(block["cidr"])
            and not any(address in ipaddress.ip_network(one) for one in block["except"])
        )
    if "ipBlock" in peer:
        return False
    space = (
        oracle_selects(peer["namespaceSelector"], spaces[end.namespace])
        if "namespaceSelector" in peer
        else end.namespace == own
    )
    return space and oracle_selects(peer.get("podSelector", {}), dict(end.labels))


def oracle_port(rule: dict[str, Any], server: PolicyPod | str, protocol: str, port: int) -> bool:
    if rule.get("protocol", "TCP") != protocol:
        return False
    match rule.get("port"):
        case None:
            return True
        case str(name):
            return not isinstance(server, str) and server.named_ports.get((name, protocol)) == port
        case number:
            return number <= port <= rule.get("endPort", number)


class Connection(NamedTuple):
    """Of a pod with another end, in one direction."""

    way: str
    pod: PolicyPod
    end: PolicyPod | str
    protocol: str
    port: int


def oracle(policies: list[dict[str, Any]], spaces: dict[str, dict[str, str]], connection: Connection) -> bool:
    """Whether a connection is allowed."""
    way, pod, end, protocol, port = connection
    key = "from" if way == "Ingress" else "to"
    speaking = [
        one
        for one in policies
        if one["metadata"]["namespace"] == pod.namespace
        and oracle_selects(one["spec"]["podSelector"], dict(pod.labels))
        and way in one["spec"].get("policyTypes", ["Ingress", *(["Egress"] if one["spec"].get("egress") else [])])
    ]
    server = pod if way == "Ingress" else end
    return not speaking or any(
        (not rule.get(key) or any(oracle_peer(peer, end, pod.namespace, spaces) for peer in rule[key]))
        and (not rule.get("ports") or any(oracle_port(each, server, protocol, port) for each in rule["ports"]))
        for one in speaking
        for rule in one["spec"].get(way.lower(), [])
    )


@settings(max_examples=300, deadline=None)
@given(drawn_policies, drawn_pods, st.tuples(label_sets, label_sets))
def test_any_policies_mean_what_the_api_says(
    policies: list[dict[str, Any]], pods: list[PolicyPod], of_spaces: tuple[dict[str, str], dict[str, str]]
) -> None:
    spaces = dict(zip(("x", "y"), of_spaces, strict=True))
    evaluation = Evaluation(policies, pods, spaces, NETWORK)
    ends: list[PolicyPod | str] = [*pods, "10.4.0.7", "8.8.8.8", "9.9.9.9"]
    for pod in pods:
        found = evaluation.rules(pod)
        for end in ends:
            address = end if isinstance(end, str) else end.address
            for protocol in ("TCP", "UDP"):
                for port in (79, 80, 81, 443):
                    for way, judged in (("Ingress", found.lets_in), ("Egress", found.lets_out)):
                        said = judged(address, port, protocol)
                        connection = Connection(way, pod, end, protocol, port)
                        assert said == oracle(policies, spaces, connection), connection
