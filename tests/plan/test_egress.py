"""Where the replicas of a job may connect to, by its network policy."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError, SpecError
from encamp.plan.egress import plan_egress
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.job import TrainingJobSpec


def environment(**more: Any) -> EnvironmentSpec:
    written = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts", **more}
    return parse_environment(written, project="my-project", source="test")


def job(*egress: str) -> TrainingJobSpec:
    training = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/t"}}
    return parse_job({"jobId": "j", "trainingInput": training, "encamp": {"egress": [*egress]}}, source="test").job


def reached(policy: dict[str, Any], address: str, port: int, protocol: str = "TCP") -> bool:
    """Whether a policy lets its pods connect to an address, as Kubernetes judges rules of addresses."""
    at = ipaddress.IPv4Address(address)
    for rule in policy["spec"]["egress"]:
        ports = rule.get("ports")
        if ports is not None and {"protocol": protocol, "port": port} not in ports:
            continue
        for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
            inside = at in ipaddress.IPv4Network(block["cidr"])
            if inside and not any(at in ipaddress.IPv4Network(each) for each in block.get("except", ())):
                return True
    return False


def test_a_replica_reaches_the_web_names_and_its_tokens_and_nothing_private() -> None:
    # Addresses of pods that are public elsewhere are private here.
    policy = render_manifests(plan_job(job(), environment(podsCidr="34.4.0.0/14"))).network_policy
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    for address in ("142.250.1.95", "199.36.153.8", "199.36.153.4"):
        assert reached(policy, address, 443)
        assert not reached(policy, address, 5432)
    assert reached(policy, "169.254.169.252", 988)
    assert reached(policy, "169.254.169.254", 80)
    assert reached(policy, "169.254.20.10", 53, "UDP")
    for address in ("10.10.0.7", "10.30.0.1", "34.5.1.1", "172.16.0.2", "192.168.1.1", "127.0.0.1", "169.254.1.1"):
        assert not any(reached(policy, address, port) for port in (22, 53, 80, 443, 988, 2222, 5432))


def test_its_own_replicas_are_reached_on_every_port_and_no_other_jobs() -> None:
    policy = render_manifests(plan_job(job(), environment())).network_policy
    peers = [rule for rule in policy["spec"]["egress"] if "ports" not in rule]
    assert peers == [{"to": [{"podSelector": policy["spec"]["podSelector"]}]}]


def test_a_job_opens_what_its_environment_allows() -> None:
    here = environment(jobEgress=["10.4.0.0/16", "34.1.0.0/16"])
    policy = render_manifests(plan_job(job("10.4.7.0/24", "34.1.2.3/32"), here)).network_policy
    assert reached(policy, "10.4.7.9", 5432)
    assert reached(policy, "34.1.2.3", 5432)
    assert not reached(policy, "10.4.8.9", 5432)


@pytest.mark.parametrize(("allowed", "asked"), [([], "10.4.0.0/16"), (["10.4.0.0/16"], "10.0.0.0/8")])
def test_a_job_opens_nothing_else(allowed: list[str], asked: str) -> None:
    with pytest.raises(PlanError, match="lets no job connect to") as caught:
        plan_egress(job(asked), environment(jobEgress=allowed))
    assert caught.value.where == "encamp.egress[0]"


def test_what_is_no_network_is_refused_in_an_environment() -> None:
    with pytest.raises(SpecError, match="is no range of IPv4 addresses"):
        environment(jobEgress=["10.4.0.1/16"])
