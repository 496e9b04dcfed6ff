"""What can be wrong with an environment's network, cluster, buckets, key and budget, and where that is said."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.errors import SpecError
from encamp.spec.environment import EnvironmentSpec, parse_environment

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
KEY = "projects/keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
BUDGET = {"billingAccount": "0123AB-4567CD-89EF01", "amount": 100}
FREEZE = {"name": "paper", "start": "2026-12-20T00:00:00Z", "end": "2027-01-10T00:00:00Z"}


URL = "slack://TokenA/TokenB/TokenC"


def told(*targets: dict[str, Any]) -> dict[str, Any]:
    return {"notices": {"targets": list(targets)}}


def parsed(**changes: Any) -> EnvironmentSpec:
    return parse_environment(DATA | changes, project="my-project", source="x")


def freezes(**change: Any) -> dict[str, Any]:
    return {"gke": {"maintenance": {"freezes": [FREEZE | change]}}}


def listed(*written: dict[str, Any]) -> dict[str, Any]:
    return {"gke": {"maintenance": {"freezes": list(written)}}}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"notices": {}}, "notices.targets", "nobody to tell"),
    (told({"name": "Team"}), "notices.targets[0].name", "lowercase letter"),
    (told({"name": "a"}, {"name": "a"}), "notices.targets[1].name", "declared already"),
    (told({"name": "a", "states": []}), "notices.targets[0].states", "names no end"),
    (told({"name": "a", "states": ["QUEUED"]}), "notices.targets[0].states[0]", "SUCCEEDED"),
    (told({"name": "a", "secret": "team-chat"}), "notices.targets[0].secret", "full name of a secret"),
    (told({"name": "a", "secret": URL}), "notices.targets[0].secret", "never the URL itself"),
    (told({"name": URL}), "notices.targets[0].name", "lowercase letter"),
    (told({"name": "a", "url": URL}), "notices.targets[0].url", "unknown field"),
    (told({"name": "a", "states": [URL]}), "notices.targets[0].states[0]", "SUCCEEDED"),
    ({"notices": URL}, "notices", "slack://..."),
    ({"notices": {"targets": URL}}, "notices.targets", "slack://..."),
    ({"notices": {"targets": [URL]}}, "notices.targets[0]", "slack://..."),
    (told(*({"name": f"a-{number}"} for number in range(21))), "notices.targets", "20 are allowed"),
    ({"podsCidr": "10.10.0.0/16"}, "podsCidr", "shares addresses with 10.10.0.0/20, which is subnetworkCidr"),
    ({"adopt": ["network", "network"]}, "adopt", "twice"),
    ({"adopt": ["network", "cluster"]}, "adopt", "has its network already"),
    ({"adopt": ["subnetwork"]}, "adopt[0]", "'network', 'cluster', 'artifactsBucket' or 'registry'"),
    ({"adopt": ["network"], "podsCidr": "10.20.0.0/14"}, "podsCidr", "adopts its network"),
    ({"adopt": ["cluster"], "subnetwork": "mine"}, "subnetwork", "adopts its cluster"),
    ({"adopt": ["cluster"], "zones": ["us-central1-a"]}, "zones", "adopts its cluster"),
    ({"adopt": ["artifactsBucket"], "artifactsRetentionDays": 3}, "artifactsRetentionDays", "adopts its"),
    ({"adopt": ["cluster"], "gke": {"releaseChannel": "RAPID"}}, "gke.releaseChannel", "is adopted"),
    ({"adopt": ["cluster"], "vpc": {}}, "vpc", "adopted cluster has its own"),
    ({"adopt": ["network"], "vpc": {"mtu": 8896}}, "vpc.mtu", "is adopted"),
    ({"vpc": {"hostProject": "host-project"}}, "vpc.hostProject", "this one is made"),
    ({"adopt": ["network"], "vpc": {"hostProject": "-"}}, "vpc.hostProject", "project id"),
    ({"vpc": {"podsRange": "a b"}}, "vpc.podsRange", "lowercase letter"),
    ({"vpc": {"podsRange": "services"}}, "vpc.servicesRange", "another range"),
    ({"vpc": {"mtu": 9000}}, "vpc.mtu", "from 1300 to 8896"),
    ({"vpc": {"natPortsPerMachine": 100}}, "vpc.natPortsPerMachine", "power of two"),
    ({"vpc": {"natPortsPerMachine": 65536}}, "vpc.natPortsPerMachine", "power of two from 64 to 32768"),
    ({"gke": {"releaseChannel": "NIGHTLY"}}, "gke.releaseChannel", "'RAPID'"),
    ({"gke": {"authorizedNetworks": [{"cidr": "10.0.0.1/8"}]}}, "gke.authorizedNetworks[0].cidr", "host bits"),
    (
        {"gke": {"authorizedNetworks": [{"cidr": "10.0.0.0/8", "ranges": []}]}},
        "gke.authorizedNetworks[0].ranges",
        "unknown field",
    ),
    ({"gke": {"controlPlaneCidr": "172.16.0.0/24"}}, "gke.controlPlaneCidr", "private /28"),
    ({"gke": {"controlPlaneCidr": "8.8.8.0/28"}}, "gke.controlPlaneCidr", "private /28"),
    ({"gke": {"controlPlaneCidr": "x"}}, "gke.controlPlaneCidr", "no range"),
    ({"gke": {"maintenance": {"start": "2am"}}}, "gke.maintenance.start", "time of the day"),
    ({"gke": {"maintenance": {"days": ["SA", "SA"]}}}, "gke.maintenance.days", "each once"),
    ({"gke": {"maintenance": {"days": []}}}, "gke.maintenance.days", "one or more"),
    ({"gke": {"maintenance": {"hours": 3}}}, "gke.maintenance.hours", "from 4 to 24"),
    ({"gke": {"maintenance": {"days": ["SA"], "hours": 8}}}, "gke.maintenance", "32 hours in 32 days; GKE wants 48"),
    (freezes(name="Paper"), "gke.maintenance.freezes[0].name", "lowercase letter"),
    (freezes(start="2026-12-20"), "gke.maintenance.freezes[0].start", "time in UTC"),
    (freezes(end="2026-12-20T00:00:00+02:00"), "gke.maintenance.freezes[0].end", "time in UTC"),
    (freezes(end="2026-12-19T00:00:00Z"), "gke.maintenance.freezes[0].end", "after the start"),
    (freezes(end="2027-02-10T00:00:00Z", scope="NO_UPGRADES"), "gke.maintenance.freezes[0].end", "more than 30 days"),
    (listed(FREEZE, FREEZE), "gke.maintenance.freezes[1].name", "no other's name"),
    (
        listed(*(FREEZE | {"name": f"f{index}", "scope": "NO_UPGRADES"} for index in range(4))),
        "gke.maintenance.freezes",
        "4 freezes without any upgrades; GKE takes 3",
    ),
    (
        listed(*(FREEZE | {"name": f"f{index}"} for index in range(21))),
        "gke.maintenance.freezes",
        "21 freezes; GKE takes 20",
    ),
    ({"gke": {"nodeServiceAccount": "me@example.com"}}, "gke.nodeServiceAccount", "no service account"),
    ({"gke": {"imageRepositories": ["gcr.io/p"]}}, "gke.imageRepositories[0]", "no full name"),
    (
        {
            "gke": {
                "nodeServiceAccount": "nodes@p.iam.gserviceaccount.com",
                "imageRepositories": ["projects/p/locations/us/repositories/r"],
            }
        },
        "gke.imageRepositories",
        "environment's own",
    ),
    ({"gke": {"systemPool": {"machineType": "large"}}}, "gke.systemPool.machineType", "no machine type"),
    ({"gke": {"systemPool": {"minNodes": 0}}}, "gke.systemPool.minNodes", "cluster DNS"),
    ({"gke": {"systemPool": {"minNodes": 4, "maxNodes": 3}}}, "gke.systemPool.maxNodes", "from minNodes"),
    ({"gke": {"nodeAutoProvisioning": {"cpu": 4}}}, "gke.nodeAutoProvisioning.memoryGib", "limit of both"),
    ({"storage": {"keepOldVersionsDays": 0}}, "storage.keepOldVersionsDays", "at least 1"),
    ({"storage": {"logsBucket": "lab-artifacts"}}, "storage.logsBucket", "another bucket"),
    ({"storage": {"logsBucket": "L"}}, "storage.logsBucket", "bucket name"),
    ({"storage": {"logsRetentionDays": 7}}, "storage.logsRetentionDays", "no logsBucket"),
    ({"artifactsRetentionDays": 30, "storage": {"colderAfterDays": 30}}, "storage.colderAfterDays", "after 30 days"),
    ({"adopt": ["artifactsBucket"], "storage": {"versioning": False}}, "storage.versioning", "is adopted"),
    ({"encryption": {"key": "key"}}, "encryption.key", "no full name"),
    ({"encryption": {"key": KEY.replace("us-central1", "europe-west4")}}, "encryption.key", "a key of europe-west4"),
    ({"encryption": {"key": KEY, "rotationDays": 30}}, "encryption.rotationDays", "this one exists"),
    ({"encryption": {"keyRing": "a/b"}}, "encryption.keyRing", "1 to 63"),
    ({"encryption": {"rotationDays": 0}}, "encryption.rotationDays", "from 1 to 3650"),
    ({"encryption": {"grant": False}}, "encryption.grant", "no use to anybody"),
    ({"budget": {"amount": 100}}, "budget.billingAccount", "no billing account"),
    ({"budget": BUDGET | {"amount": 0}}, "budget.amount", "at least 1"),
    ({"budget": BUDGET | {"currency": "euro"}}, "budget.currency", "three letters"),
    ({"budget": BUDGET | {"at": [50]}}, "budget.at[0]", "a share of the amount"),
    ({"budget": BUDGET | {"at": [0.5, 0.5]}}, "budget.at", "twice"),
    ({"budget": BUDGET | {"at": [], "atForecast": []}}, "budget.at", "nothing to report"),
    ({"budget": BUDGET | {"channels": ["me@example.com"]}}, "budget.channels[0]", "no full name"),
    (
        {"budget": BUDGET | {"channels": [f"projects/p/notificationChannels/{index}" for index in range(6)]}},
        "budget.channels",
        "6 channels; a budget takes 5",
    ),
    ({"budget": BUDGET | {"topic": "spend"}}, "budget.topic", "no full name"),
]


@pytest.mark.parametrize(("changes", "path", "message"), WRONG, ids=[f"{path}-{text}" for _, path, text in WRONG])
def test_what_is_wrong_is_said_where_it_stands(changes: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parsed(**changes)
    said = {problem.path: problem.message for problem in caught.value.problems}
    assert list(said) == [path]
    assert message in said[path]
    assert "TokenB" not in str(caught.value)


def test_a_share_in_percent_is_answered_with_the_share() -> None:
    with pytest.raises(SpecError, match=r"write 0\.9"):
        parsed(budget=BUDGET | {"at": [90]})


def test_all_problems_of_all_blocks_are_said_at_once() -> None:
    wrong = {"vpc": {"mtu": 1}, "gke": {"chanel": "RAPID", "controlPlaneCidr": "x"}, "budget": {"amount": "much"}}
    with pytest.raises(SpecError) as caught:
        parsed(**wrong)
    assert {problem.path for problem in caught.value.problems} == {
        "vpc.mtu",
        "gke.chanel",
        "gke.controlPlaneCidr",
        "budget.amount",
        "budget.billingAccount",
    }


def test_blocks_may_be_written_in_either_spelling() -> None:
    one = parsed(gke={"system_pool": {"min_nodes": 2}}, storage={"logs_bucket": "lab-logs"})
    assert one == parsed(gke={"systemPool": {"minNodes": 2}}, storage={"logsBucket": "lab-logs"})


def test_an_adopted_network_may_be_another_projects_with_ranges_of_other_names() -> None:
    vpc = {"hostProject": "host-project", "podsRange": "p", "servicesRange": "s"}
    spec = parsed(adopt=["network"], network="shared", vpc=vpc)
    assert spec.vpc is not None
    assert spec.vpc.host_project == "host-project"


def test_the_sandboxs_cluster_has_no_name_of_its_own() -> None:
    with pytest.raises(SpecError, match="no name of its own"):
        parse_environment(DATA | {"gke": {"dnsEndpoint": True}}, project="sandbox-lab", source="x")


def test_a_long_window_of_one_day_is_enough() -> None:
    spec = parsed(gke={"maintenance": {"days": ["SU"], "hours": 12}})
    assert spec.gke is not None
    assert spec.gke.maintenance.days == ("SU",)
