"""The jobs API of an environment: its rules, and what its pods may do and reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from encamp.api.connections import Limits
from encamp.api.server import LONGEST_END_SECONDS
from encamp.errors import SpecError
from encamp.plan.environment.api import PORT, ApiPlan, api_objects
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import EnvironmentSpec, parse_environment

FILE = Path(__file__).parents[1] / "components" / "environments" / "with-an-api.yaml"


def written() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return data


def parsed(**api: Any) -> EnvironmentSpec:
    data = written()
    data["api"] |= api
    return parse_environment(data, project=None, source="x")


def planned(**api: Any) -> ApiPlan:
    plan = plan_environment(parsed(**api)).api
    assert plan is not None
    return plan


def objects(**api: Any) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in api_objects(planned(**api), "prod")}


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ({"recordSecret": ""}, "api.recordSecret"),
        ({"recordSecret": "Not A Name"}, "api.recordSecret"),
        ({"image": "an image"}, "api.image"),
        ({"replicas": 0}, "api.replicas"),
        ({"replicas": 11}, "api.replicas"),
        ({"drivers": 0}, "api.drivers"),
        ({"recordPort": 65_536}, "api.recordPort"),
        ({"networks": ["35.191.0.0/8"]}, "api.networks"),
        ({"networks": ["everybody"]}, "api.networks"),
        ({"audiences": [" "]}, "api.audiences"),
        ({"audiences": [], "issuers": [{"url": "https://a.example", "domains": ["a.example"]}]}, "api.audiences"),
        ({"issuers": [{"url": "http://login.example.com", "domains": ["example.com"]}]}, "api.issuers"),
        # Nobody could else say whose e-mails are this issuer's to speak for.
        ({"issuers": [{"url": "https://login.example.com"}]}, "api.issuers"),
        ({"issuers": [{"url": "https://login.example.com", "domains": ["b\u00fccher.example"]}]}, "api.issuers"),
        ({"issuers": [{"url": "https://login.example.com", "domains": ["@example.com"]}]}, "api.issuers"),
        ({"issuers": [{"url": "https://login.example.com", "domains": ["Gmail.com"]}]}, "api.issuers"),
        ({"issuers": [{"url": "https://a.example", "domains": ["p.iam.gserviceaccount.com"]}]}, "api.issuers"),
        ({"issuers": [{"url": "https://a.example", "pool": "acme", "domains": ["example.com"]}]}, "api.issuers"),
        ({"trustedProxies": ["35.191.0.0/8"]}, "api.trustedProxies"),
        ({"trustedProxies": ["0.0.0.0/0"]}, "api.trustedProxies"),
        ({"trustedProxies": ["::/0"]}, "api.trustedProxies"),
        ({"issuers": [{"url": "https://a.example", "domains": ["a.example"], "keys": "https:///k"}]}, "api.issuers"),
        ({"recordUrl": "postgresql://a:b@c/d"}, "api.recordUrl"),
    ],
)
def test_what_is_wrong_with_it_is_said(api: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        parsed(**api)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_without_drivers_it_could_hand_nothing_over() -> None:
    data = written()
    del data["driver"]
    with pytest.raises(SpecError, match="there are none"):
        parse_environment(data, project=None, source="x")


def test_a_sandbox_serves_from_this_machine() -> None:
    with pytest.raises(SpecError, match="encamp serve"):
        parse_environment(written() | {"project": "sandbox-x", "driver": None}, project=None, source="x")


def test_its_image_is_the_drivers_unless_it_has_one_of_its_own() -> None:
    assert planned().image == written()["driver"]["image"]
    assert planned(image="gcr.io/p/encamp:2").image == "gcr.io/p/encamp:2"


def test_everything_of_it_lies_in_its_own_namespace_but_its_rights_elsewhere() -> None:
    plan = planned()
    rights = {"Role", "RoleBinding"}
    places = {(one["kind"] in rights, one["metadata"].get("namespace")) for one in api_objects(plan, "prod")}
    assert places == {(False, None), (False, plan.name), (True, plan.drivers), (True, plan.jobs)}


def test_a_pod_writes_nothing_but_its_own_folder_and_gains_nothing() -> None:
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"]
    (mount, teams), (volume, config) = container["volumeMounts"], pod["volumes"]
    assert set(volume) == {"name", "emptyDir"}
    # Who may what is read, and never written.
    assert (teams["name"], teams["readOnly"], "subPath" in teams) == ("teams", True, False)
    assert config == {"name": "teams", "configMap": {"name": planned().name}}
    assert f"{teams['mountPath']}/{next(iter(objects()['ConfigMap']['data']))}" in container["command"]
    folders = {each["name"]: each["value"] for each in container["env"]}
    assert folders.pop("ENCAMP_OWN_CLUSTER").startswith("projects/")
    assert all(folder.startswith(mount["mountPath"]) for folder in folders.values())
    assert {"HOME", "TMPDIR", "ENCAMP_STATE_DIR"} == set(folders)


def test_a_pod_is_given_longer_to_end_than_it_takes() -> None:
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + Limits().grace_seconds + LONGEST_END_SECONDS


def test_trainers_do_not_reach_it_and_it_reaches_no_trainer() -> None:
    policy = objects()["NetworkPolicy"]["spec"]
    (rule,) = policy["ingress"]
    inside, *outside = rule["from"]
    (kept_out,) = inside["namespaceSelector"]["matchExpressions"]
    assert kept_out == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [planned().jobs]}
    assert [each["ipBlock"]["cidr"] for each in outside] == written()["api"]["networks"]
    assert rule["ports"] == [{"protocol": "TCP", "port": PORT}]
    reached = {port["port"] for each in policy["egress"] if "to" not in each for port in each["ports"]}
    # TensorFlow's servers run whatever they are told, on 2222.
    assert reached == {443, 5432, 53}


def test_only_several_pods_have_a_budget_for_disruptions() -> None:
    assert objects()["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    # Of a single pod nothing could be drained.
    assert "PodDisruptionBudget" not in objects(replicas=1)


def test_every_object_has_the_environments_labels() -> None:
    plan = replace(planned(), replicas=3)
    for one in api_objects(plan, "prod"):
        assert plan.labels.items() <= one["metadata"]["labels"].items(), one["kind"]
    assert {"encamp-owner", "encamp-environment"} <= plan.labels.keys()
