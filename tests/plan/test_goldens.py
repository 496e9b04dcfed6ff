"""Whole jobs: all that a plan holds, and all objects in Kubernetes. The tables of ``jobs/`` test the other jobs.

``plan.yaml`` leaves out what ``manifests.yaml`` says: what runs in a replica, and its environment.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.job_cases import GOLDEN, golden_cases
from tests.plan.planned import PlannedCase, plan_case

from encamp.plan.document import job_document

CASES = golden_cases()
SCRIPT = "<templates/bootstrap.py>\n"
#: What of a case somebody wrote.
WRITTEN = ("job.yaml", "environment.yaml")
#: What a reader of one file cannot take in.
LONGEST = 450


class _Dumper(yaml.SafeDumper):
    """Writes what stands in several places once, with an anchor, and short lists and mappings in one line."""


def _whole(found: PlannedCase) -> dict[str, str]:
    """File name to content."""
    document = json.loads(json.dumps(job_document(found.plan)))
    document["requested"] = {one["role"]: one["requested"] for one in document.pop("replicas")}
    del document["identity"]["roles"]
    document.pop("study", None)
    document["warnings"] = found.warnings
    return {"plan.yaml": _dumped([document]), "manifests.yaml": _dumped(_objects(found))}


def _objects(found: PlannedCase) -> list[dict[str, Any]]:
    """The objects as they are read back; of scripts and JSON text what a reviewer can read."""
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(found.manifests.to_yaml()))
    for one in objects:
        data = one.get("data", {})
        if "bootstrap.py" in data:
            data["bootstrap.py"] = SCRIPT
        data |= {name: json.loads(text) for name, text in data.items() if name.endswith(".json")}
    return objects


def _dumped(documents: list[dict[str, Any]]) -> str:
    """YAML in which equal lists and mappings of some size are one object, so that they are written once."""
    seen: dict[str, Any] = {}
    return yaml.dump_all(
        [_shared(document, seen) for document in documents],
        Dumper=_Dumper,
        default_flow_style=None,
        sort_keys=False,
        allow_unicode=True,
        width=120,
        explicit_start=True,
    )


def _shared(value: Any, seen: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        value = {key: _shared(item, seen) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_shared(item, seen) for item in value]
    else:
        return value
    text = json.dumps(value)
    return seen.setdefault(text, value) if len(text) > 100 else value


@pytest.mark.parametrize("name", CASES)
def test_a_whole_job_is_what_its_folder_says(name: str, *, rewrite_goldens: bool) -> None:
    found = _whole(plan_case(CASES[name]))
    folder = GOLDEN / name
    if rewrite_goldens:
        for stale in folder.glob("*"):
            if stale.name not in WRITTEN:
                stale.unlink()
        for file, text in found.items():
            (folder / file).write_text(text, encoding="utf-8")
    kept = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.name not in WRITTEN}
    assert found == kept


@pytest.mark.parametrize("name", CASES)
def test_a_golden_says_why_it_is_kept_and_stays_small(name: str) -> None:
    assert CASES[name].text.startswith("# Kept whole: ")
    for path in (GOLDEN / name).iterdir():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST, path.name


@pytest.mark.parametrize("name", CASES)
def test_objects_are_created_in_the_order_of_their_dependencies(name: str) -> None:
    kinds = [one["kind"] for one in plan_case(CASES[name]).manifests]
    queued = kinds.count("ProvisioningRequest")
    claims = ["ResourceClaimTemplate"] * kinds.count("ResourceClaimTemplate")
    between = claims + ["PodTemplate"] * queued + ["ProvisioningRequest"] * queued
    last = "ConfigMap" if name.startswith("tuning") else "JobSet"
    assert kinds == ["ServiceAccount", "ConfigMap", "NetworkPolicy", *between, last]
