from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError, SpecError, UsageError
from encamp.plan.job import plan_job
from encamp.plan.policy import PolicyError
from encamp.spec.environment import load_environment, parse_environment
from encamp.spec.environment.policy import LIMITS
from encamp.spec.job_file import parse_job
from encamp.spec.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
JOB = {
    "region": "us-central1",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-8",
    "masterConfig": {"acceleratorConfig": {"count": 2, "type": "NVIDIA_TESLA_T4"}},
    "workerType": "n1-standard-8",
    "workerConfig": {"acceleratorConfig": {"count": 2, "type": "NVIDIA_TESLA_T4"}},
    "workerCount": 3,
    "scheduling": {"maxRunningTime": "3600s"},
}


def planned(rules: list[dict[str, Any]], **job: Any) -> JobPlan:
    environment = parse_environment(DATA | {"policy": {"rules": rules}}, project="my-project", source="x")
    return plan_job(parse_job({"jobId": "j", "trainingInput": JOB} | job, source="j").job, environment)


def broken(rule: dict[str, Any], **job: Any) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        planned([rule], **job)
    return caught.value


@pytest.mark.parametrize(
    "rule",
    [
        {"regions": ["us-central1", "europe-west4"]},
        {"machineFamilies": ["n1"]},
        {"machineFamilies": ["a2", "n1-standard"]},
        {"maxAccelerators": 8},
        {"maxCostUsd": 100},
    ],
)
def test_a_job_that_keeps_a_rule_is_planned_as_without_it(rule: dict[str, Any]) -> None:
    assert planned([rule]) == planned([{"regions": ["us-central1"]}])
    assert planned([rule]).findings == ()


@pytest.mark.parametrize(
    ("rule", "where", "what", "hint"),
    [
        (
            {"machineFamilies": ["a2", "g2"]},
            "trainingInput.masterConfig.acceleratorConfig",
            "n1-standard-8 is not allowed",
            "choose a machine of a2, g2",
        ),
        (
            {"maxAccelerators": 7},
            "trainingInput",
            "8 accelerators at once (nvidia-tesla-t4) are more than 7",
            "take fewer, or replicas",
        ),
        (
            {"spotOnly": True},
            "encamp.provisioning",
            "only spot machines are allowed, not ON_DEMAND",
            "write `encamp: {provisioning: SPOT}`",
        ),
        (
            {"requiredLabels": ["team"]},
            "labels.team",
            "the label is missing",
            "write `labels: {team: ...}`",
        ),
    ],
)
def test_a_job_that_breaks_a_rule_is_told_where_and_what_to_do(
    rule: dict[str, Any], where: str, what: str, hint: str
) -> None:
    found = broken(rule).findings
    assert [(one.where, one.what, one.hint, one.refuses) for one in found] == [(where, what, hint, True)]
    assert [one.rule for one in found] == list(rule)


def test_what_a_job_may_cost_is_its_worst_case() -> None:
    most = (planned([{"maxCostUsd": 1000}]).cost or pytest.fail("no cost")).worst_case or 0.0
    assert planned([{"maxCostUsd": most}])
    found = broken({"maxCostUsd": most - 0.01}).findings[0]
    assert f"may cost {most:.2f} USD at worst" in found.what
    assert found.hint.startswith("say `encamp: {budget: {usd: ")
    cut = {key: value for key, value in JOB.items() if key != "scheduling"}
    assert planned([{"maxCostUsd": 20}], trainingInput=cut, encamp={"budget": {"usd": 20}}).findings == ()


def test_a_machine_without_a_price_may_cost_anything() -> None:
    tpu = {key: value for key, value in JOB.items() if "onfig" not in key and "Type" not in key and "Count" not in key}
    tpu = {key: value for key, value in tpu.items() if key not in {"runtimeVersion", "pythonVersion"}}
    worker = {"tpuTfVersion": "2.11"}
    image = {"masterConfig": {"imageUri": "python:3.11"}, "workerConfig": worker, "scaleTier": "BASIC_TPU"}
    with pytest.raises(PlanError, match="no price is known of ct3-hightpu-4t"):
        planned([{"maxCostUsd": 1000}], trainingInput=tpu | image)


def test_spot_machines_and_labels_keep_their_rules() -> None:
    spot = planned([{"spotOnly": True}], encamp={"provisioning": "SPOT"})
    assert all(pool.spot for pool in spot.node_pools)
    assert planned([{"requiredLabels": ["team"]}], labels={"team": "vision"})
    assert broken({"requiredLabels": ["team", "cost-center"]}, labels={"team": "vision"}).findings[0].where == (
        "labels.cost-center"
    )


def test_every_broken_rule_is_told_with_the_organisations_own_words() -> None:
    rules = [
        {"name": "cheap only", "spotOnly": True, "message": "ask #ml-platform"},
        {"maxAccelerators": 4, "requiredLabels": ["team"]},
    ]
    with pytest.raises(PolicyError) as caught:
        planned(rules)
    assert str(caught.value).splitlines() == [
        "policy: the job breaks 3 rules of its environment",
        "  encamp.provisioning: only spot machines are allowed, not ON_DEMAND (rule cheap only): ask #ml-platform",
        "    try: write `encamp: {provisioning: SPOT}`",
        "  trainingInput: 8 accelerators at once (nvidia-tesla-t4) are more than 4 (rule maxAccelerators)",
        "    try: take fewer, or replicas",
        "  labels.team: the label is missing (rule requiredLabels)",
        "    try: write `labels: {team: ...}`",
    ]


def test_a_rule_that_only_warns_lets_the_job_run() -> None:
    found = planned([{"spotOnly": True, "enforce": "warn"}])
    assert [one.rule for one in found.findings] == ["spotOnly"]
    assert found.warnings[-1] == ("encamp.provisioning: only spot machines are allowed, not ON_DEMAND (rule spotOnly)")


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({}, "policy"),
        ({"rules": []}, "policy"),
        ({"rules": [{"message": "hello"}]}, "policy.rules[0]"),
        ({"rules": [{"spotOnly": True}, {"machineFamilies": ["q9"]}]}, "policy.rules[1].machineFamilies[0]"),
        ({"rules": [{"machineFamilies": []}]}, "policy.rules[0].machineFamilies"),
        ({"rules": [{"regions": ["us-central1-a", "us-central1"]}]}, "policy.rules[0].regions[0]"),
        ({"rules": [{"regions": ["europe-west4"]}]}, "policy.rules[0].regions"),
        ({"rules": [{"maxAccelerators": -1}]}, "policy.rules[0].maxAccelerators"),
        ({"rules": [{"maxCostUsd": 0}]}, "policy.rules[0].maxCostUsd"),
        ({"rules": [{"spotOnly": False}]}, "policy.rules[0].spotOnly"),
        ({"rules": [{"requiredLabels": ["Team"]}]}, "policy.rules[0].requiredLabels[0]"),
        ({"rules": [{"spotsOnly": True}]}, "policy.rules[0].spotsOnly"),
        ({"rules": [{"spotOnly": True, "enforce": "ignore"}]}, "policy.rules[0].enforce"),
        ({"file": "../elsewhere.yaml"}, "policy.file"),
    ],
)
def test_rules_that_say_nothing_sensible_are_refused(policy: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_environment(DATA | {"policy": policy}, project="my-project", source="x")
    assert path in {problem.path for problem in caught.value.problems}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "stacks").mkdir()
    return tmp_path


def stack(checkout: Path, block: str, **files: str) -> Path:
    (checkout / "stacks" / "Pulumi.lab.yaml").write_text(
        "config:\n  gcp:project: my-project\n  encamp:environment:\n    name: lab\n    region: us-central1\n"
        f"    artifactsBucket: lab-artifacts\n{block}"
    )
    for name, text in files.items():
        (checkout / f"{name}.yaml").write_text(text)
    return checkout


def run(checkout: Path) -> JobPlan:
    return plan_job(parse_job({"jobId": "j", "trainingInput": JOB}, source="j").job, load_environment("lab", checkout))


def test_rules_of_a_shared_file_and_of_the_environment_hold_together(checkout: Path) -> None:
    stack(
        checkout,
        "    policy:\n      file: org.yaml\n      rules:\n        - spotOnly: true\n",
        org="rules:\n  - maxAccelerators: 4\n    message: ask finance\n",
    )
    with pytest.raises(PolicyError) as caught:
        run(checkout)
    assert [(one.rule, one.message) for one in caught.value.findings] == [
        ("maxAccelerators", "ask finance"),
        ("spotOnly", ""),
    ]


PRICES = """
date: 2026-10-01
region: us-central1
source: our contract
machines: {n1-standard-8: {usdPerHour: 0.3}}
gpus: {nvidia-tesla-t4: {usdPerHour: 0.2}}
disks: {pd-ssd: {usdPerGbMonth: 0.073}}
"""


def test_prices_of_a_file_are_what_costs_are_counted_by(checkout: Path) -> None:
    cost = run(stack(checkout, "    prices: {file: ours.yaml}\n", ours=PRICES)).cost
    assert cost is not None
    assert cost.hourly == pytest.approx(4 * (0.3 + 2 * 0.2 + 0.01))
    assert (str(cost.basis), cost.basis.source) == ("prices of us-central1, 2026-10-01", "our contract")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("2026-10-01", "last week"), "date"),
        (("source: our contract", ""), "source"),
        (("usdPerHour: 0.3", "usdPerHour: -0.3"), "machines.n1-standard-8.usdPerHour"),
        (("usdPerHour: 0.3", "usdPerMonth: 0.3"), "machines.n1-standard-8.usdPerMonth"),
        (("usdPerHour: 0.2", "source: here"), "gpus.nvidia-tesla-t4.usdPerHour"),
        (("usdPerGbMonth: 0.073", "usdPerGbMonth: much"), "disks.pd-ssd.usdPerGbMonth"),
    ],
)
def test_a_table_of_prices_that_is_wrong_says_where(checkout: Path, change: tuple[str, str], path: str) -> None:
    stack(checkout, "    prices: {file: ours.yaml}\n", ours=PRICES.replace(*change))
    with pytest.raises(SpecError) as caught:
        load_environment("lab", checkout)
    assert caught.value.source == "ours.yaml"
    assert path in {problem.path for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ("rules: [{spotOnly: maybe}]", "rules[0].spotOnly"),
        ("rules: [{regions: [europe-west4]}]", "rules[0].regions"),
        ("rules: []", ""),
        ("regions: [us-central1]", "regions"),
    ],
)
def test_a_file_of_rules_that_is_wrong_says_where(checkout: Path, files: str, path: str) -> None:
    stack(checkout, "    policy: {file: org.yaml}\n", org=files)
    with pytest.raises(SpecError) as caught:
        load_environment("lab", checkout)
    assert caught.value.source == "org.yaml"
    assert path in {problem.path for problem in caught.value.problems}


@pytest.mark.parametrize("block", ["policy", "prices"])
def test_a_file_that_is_missing_is_named_and_one_that_was_not_read_counts_for_nothing(
    checkout: Path, block: str
) -> None:
    with pytest.raises(UsageError, match=r"gone\.yaml"):
        load_environment("lab", stack(checkout, f"    {block}: {{file: gone.yaml}}\n"))
    data: Mapping[str, Any] = DATA | {block: {"file": "gone.yaml"}}
    unread = parse_environment(data, project="my-project", source="x")
    with pytest.raises(PlanError, match="were not read"):
        plan_job(parse_job({"jobId": "j", "trainingInput": JOB}, source="j").job, unread)


def blocks(page: str) -> list[str]:
    """The YAML that a page of the documentation shows."""
    text = (Path(__file__).resolve().parents[2] / "docs" / page).read_text()
    return re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.DOTALL)


def test_the_rules_and_prices_of_the_documentation_are_taken(checkout: Path) -> None:
    environment, rules, _ = blocks("policy.md")
    (checkout / "policies").mkdir()
    (checkout / "policies" / "acme.yaml").write_text(rules)
    (checkout / "stacks" / "Pulumi.production.yaml").write_text(environment)
    policy = load_environment("production", checkout).policy
    assert policy is not None
    limits = [limit for rule in policy.rules or () for limit in rule.limits]
    assert set(limits) == set(LIMITS)
    (checkout / "prices.yaml").write_text(blocks("costs.md")[-1])
    assert load_prices(checkout / "prices.yaml").machines["n1-standard-8"].usd_per_hour == 0.36
