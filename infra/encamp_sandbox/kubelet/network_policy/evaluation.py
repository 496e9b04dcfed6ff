"""NetworkPolicies, pods and namespaces at one moment, turned into the rules of each pod.

They mean what the API says (kubernetes.io/docs/concepts/services-networking/network-policies): policies that select a
pod add up, a direction that no policy speaks of is open, and blocks of addresses are of what is outside of the cluster.
Beliefs: network-policies-add-up, network-policy-blocks-are-external.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.kubelet.labels import selects
from encamp_sandbox.kubelet.network_policy.rules import TCP, Allowed, PodRules, Ports, Span, merged, without

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Policy = Mapping[str, Any]

INGRESS: Final = "Ingress"
EGRESS: Final = "Egress"
#: Blocks that are wider are the internet, and name nobody's network.
_WIDEST_NAMED: Final = 8
#: Addresses that lead to nobody outside of the cluster: the pod itself, and what its node serves.
_NOWHERE: Final = (Span.of("127.0.0.0/8"), Span.of("169.254.0.0/16"))


@dataclass(frozen=True)
class PolicyPod:
    """A pod, as far as policies know it.

    Attributes:
        address: of the pod.
        named_ports: numbers of its containers' ports, by name and protocol.
        on_host: whether it is on its node's network, which policies do not speak of.
    """

    namespace: str
    labels: Mapping[str, str]
    address: str
    named_ports: Mapping[tuple[str, str], int] = field(default_factory=dict)
    on_host: bool = False

    @classmethod
    def of(cls, pod: Mapping[str, Any], address: str) -> PolicyPod:
        """Read it from the API's object."""
        containers = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
        ports = {
            (one["name"], one.get("protocol") or TCP): int(one["containerPort"])
            for container in containers
            for one in container.get("ports") or []
            if one.get("name")
        }
        metadata = pod["metadata"]
        on_host = bool(pod["spec"].get("hostNetwork"))
        return cls(metadata["namespace"], metadata.get("labels") or {}, address, ports, on_host)


class Evaluation:
    """Evaluates policies; made anew when anything changes.

    Args:
        policies: of all namespaces.
        pods: those that have an address.
        namespaces: labels of each, by name.
        pods_network: all addresses that pods may have, which no block of addresses means.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        pods: Sequence[PolicyPod],
        namespaces: Mapping[str, Mapping[str, str]],
        pods_network: str,
    ) -> None:
        self._policies = policies
        self._pods = [pod for pod in pods if not pod.on_host]
        self._namespaces = namespaces
        self._inside = Span.of(pods_network)
        self._known: dict[tuple[int, str, int], tuple[list[PolicyPod], list[Span]]] = {}

    def rules(self, pod: PolicyPod) -> PodRules:
        """Return the rules of a pod."""
        if pod.on_host:
            return PodRules()
        selecting = [one for one in self._policies if _is_for(one, pod)]
        ways: dict[str, tuple[Allowed, ...] | None] = {}
        for direction in (INGRESS, EGRESS):
            speaking = [one for one in selecting if direction in _types(one["spec"])]
            found = (allowed for policy in speaking for allowed in self._allowed(policy, direction, pod))
            ways[direction] = tuple(dict.fromkeys(found)) if speaking else None
        named = (span for policy in selecting if EGRESS in _types(policy["spec"]) for span in self._named(policy))
        return PodRules(ways[INGRESS], ways[EGRESS], tuple(sorted(set(named))))

    def _allowed(self, policy: Policy, direction: str, pod: PolicyPod) -> Iterator[Allowed]:
        for index, rule in enumerate(policy["spec"].get(direction.lower()) or []):
            numeric = tuple(_numeric(one) for one in rule.get("ports") or [] if not _is_named(one))
            named = [(one["port"], one.get("protocol") or TCP) for one in rule.get("ports") or [] if _is_named(one)]
            peers, spans = self._peers(policy, direction, index)
            everybody = not rule.get(_PEERS[direction])
            addresses = None if everybody else merged([*map(_span, peers), *spans])
            if not rule.get("ports"):
                yield Allowed(addresses)
            if numeric:
                yield Allowed(addresses, numeric)
            if direction == INGRESS:  # the port is the selected pod's own
                known = [(protocol, pod.named_ports.get((name, protocol))) for name, protocol in named]
                if ports := tuple(Ports(protocol, port, port) for protocol, port in known if port is not None):
                    yield Allowed(addresses, ports)
            else:
                yield from _to_named(named, self._pods if everybody else peers)

    def _peers(self, policy: Policy, direction: str, index: int) -> tuple[list[PolicyPod], list[Span]]:
        """Return pods and blocks that a rule names."""
        key = (id(policy), direction, index)
        if key not in self._known:
            named = policy["spec"][direction.lower()][index].get(_PEERS[direction]) or []
            own = policy["metadata"]["namespace"]
            pods = [pod for pod in self._pods if any(self._is_peer(one, pod, own) for one in named)]
            blocks = [span for one in named if "ipBlock" in one for span in self._block(one["ipBlock"])]
            self._known[key] = pods, blocks
        return self._known[key]

    def _is_peer(self, peer: Mapping[str, Any], pod: PolicyPod, own: str) -> bool:
        if "ipBlock" in peer:
            return False
        if "namespaceSelector" in peer:
            if not selects(peer["namespaceSelector"], self._namespaces.get(pod.namespace) or {}):
                return False
        elif pod.namespace != own:
            return False
        return selects(peer.get("podSelector") or {}, pod.labels)

    def _block(self, block: Mapping[str, Any]) -> tuple[Span, ...]:
        if ":" in block["cidr"]:
            return ()
        excepted = [Span.of(one) for one in block.get("except") or [] if ":" not in one]
        return without(Span.of(block["cidr"]), [*excepted, self._inside])

    def _named(self, policy: Policy) -> Iterator[Span]:
        for rule in policy["spec"].get("egress") or []:
            for peer in rule.get("to") or []:
                block = peer.get("ipBlock")
                if block and ":" not in block["cidr"] and int(block["cidr"].partition("/")[2]) >= _WIDEST_NAMED:
                    yield from (left for span in self._block(block) for left in without(span, _NOWHERE))


_PEERS: Final = {INGRESS: "from", EGRESS: "to"}


def _is_for(policy: Policy, pod: PolicyPod) -> bool:
    selector = policy["spec"].get("podSelector") or {}
    return policy["metadata"]["namespace"] == pod.namespace and selects(selector, pod.labels)


def _types(spec: Mapping[str, Any]) -> Sequence[str]:
    """Return directions that a policy speaks of.

    Without ``policyTypes`` ingress, and egress where it has such rules.
    """
    return spec.get("policyTypes") or ([INGRESS, EGRESS] if spec.get("egress") else [INGRESS])


def _is_named(port: Mapping[str, Any]) -> bool:
    return isinstance(port.get("port"), str)


def _numeric(port: Mapping[str, Any]) -> Ports:
    first = port.get("port")
    protocol = port.get("protocol") or TCP
    return Ports(protocol) if first is None else Ports(protocol, first, port.get("endPort") or first)


def _to_named(named: Sequence[tuple[str, str]], pods: Sequence[PolicyPod]) -> Iterator[Allowed]:
    """Yield connections to pods at ports that they call by these names."""
    for name, protocol in named:
        numbers: dict[int, list[Span]] = {}
        for pod in pods:
            if (number := pod.named_ports.get((name, protocol))) is not None:
                numbers.setdefault(number, []).append(_span(pod))
        for number, spans in sorted(numbers.items()):
            yield Allowed(merged(spans), (Ports(protocol, number, number),))


def _span(pod: PolicyPod) -> Span:
    return Span.of(pod.address)
