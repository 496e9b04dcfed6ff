"""What a change of an environment takes: a table with a row for every field, held against the official schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from encamp.beliefs.table import beliefs
from encamp.errors import PlanError
from encamp.plan.environment.changes import Take, changes, made_with, refuse, table
from encamp.spec.environment import EnvironmentSpec, parse_environment

SCHEMA = Path(__file__).resolve().parents[2] / "infra" / "encamp_sandbox" / "gcp_provider" / "schema"
WRITTEN: dict[str, Any] = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
#: Blocks with a row for each of their fields.
SPLIT = {"vpc", "gke", "storage", "encryption", "budget"}


def spec(**written: Any) -> EnvironmentSpec:
    return parse_environment({**WRITTEN, **written}, project="acme-lab", source="test")


def fields(model: type[BaseModel]) -> dict[str, Any]:
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def below(annotation: Any) -> type[BaseModel]:
    return next(one for one in annotation.__args__ if isinstance(one, type) and issubclass(one, BaseModel))


def test_every_field_of_an_environment_is_in_the_table() -> None:
    expected = set[str]()
    for name, annotation in fields(EnvironmentSpec).items():
        split = name in SPLIT
        expected |= {f"{name}.{inner}" for inner in fields(below(annotation))} if split else {name}
    assert set(table()) == expected


def test_every_row_that_is_not_changed_in_place_has_a_source() -> None:
    for path, entry in table().items():
        take = Take(entry["take"])
        assert (entry.get("belief") in beliefs()) == (take is not Take.IN_PLACE), path
        assert take is Take.REPLACED or "loses" not in entry, path


def test_what_is_replaced_is_replaced_by_the_official_schema() -> None:
    named = {path: entry["forces"] for path, entry in table().items() if "forces" in entry}
    assert len(named) > 10
    for path, place in named.items():
        kind, _, inputs = place.partition(":")
        found: Any = json.loads((SCHEMA / f"{kind}.json").read_text())
        for key in inputs.split("."):
            found = found["fields"][key]
        words = found if isinstance(found, str) else found["is"]
        assert "forceNew" in words.split(), path


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"podsCidr": "10.40.0.0/14"}, "podsCidr: 10.20.0.0/14 → 10.40.0.0/14: cannot be changed"),
        ({"subnetworkCidr": "10.50.0.0/20"}, "subnetworkCidr: 10.10.0.0/20 → 10.50.0.0/20: can only become a larger"),
        ({"cluster": "other"}, "takes a new cluster"),
        ({"region": "europe-west4"}, "takes a new environment"),
        ({"encryption": {}}, "encryption.key: nothing → a key that is made: is replaced, and all images"),
        ({"registry": "other"}, "is replaced, and all images in it go"),
        ({"adopt": ["network"]}, "adopt: [] → ['network']"),
        ({"gke": {"controlPlaneCidr": "172.16.0.0/28"}}, "gke.controlPlaneCidr: nothing → 172.16.0.0/28"),
    ],
)
def test_what_google_refuses_or_what_would_be_lost_is_refused_first(written: dict[str, Any], said: str) -> None:
    before = json.loads(json.dumps(made_with(spec())))
    found = changes(before, spec(**written))
    with pytest.raises(PlanError) as caught:
        refuse(found, where="stacks/Pulumi.lab.yaml")
    assert said in str(caught.value)
    assert "second environment" in str(caught.value.hint)


def test_what_is_changed_in_place_or_replaced_without_loss_goes_on() -> None:
    before = json.loads(json.dumps(made_with(spec())))
    assert changes(before, spec(owner="somebody", zones=["us-central1-a"], artifactsRetentionDays=7)) == ()
    assert changes(before, spec(vpc={"flowLogs": True}, gke={"releaseChannel": "STABLE"}, storage={})) == ()
    larger = changes(before, spec(subnetworkCidr="10.10.0.0/18"))
    account = changes(before, spec(gke={"nodeServiceAccount": "nodes@acme-lab.iam.gserviceaccount.com"}))
    assert [one.path for one in (*larger, *account)] == ["subnetworkCidr", "gke.nodeServiceAccount"]
    refuse((*larger, *account), where="stacks/Pulumi.lab.yaml")


def test_of_an_environment_whose_outputs_do_not_say_it_nothing_is_refused() -> None:
    assert changes({}, spec(podsCidr="10.40.0.0/14")) == ()
