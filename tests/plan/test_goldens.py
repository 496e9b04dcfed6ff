from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.golden_cases import EXAMPLES, GOLDEN, environment_of, job_path

from encamp.errors import PlanError, SpecError
from encamp.plan.document import job_document
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.spec.job_file import JobFile, examine_job, load_job
from encamp.spec.loading import load_document

if TYPE_CHECKING:
    from encamp.plan.manifests.job import Manifests
    from encamp.plan.model import LocalPackage
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec

CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
SCRIPT = "<templates/bootstrap.py>\n"
#: What of a case somebody wrote.
WRITTEN = ("job.yaml", "environment.yaml")


def expected(case: str, environment: EnvironmentSpec, package: LocalPackage) -> dict[str, str]:
    """File name to content: the case's problems, or its plan and manifests."""
    path = job_path(case)
    try:
        document = load_document(path, source="job.yaml")
    except SpecError as error:
        return {"problems.json": _json([asdict(problem) for problem in error.problems])}
    _, problems, warnings = examine_job(document)
    if problems:
        return {"problems.json": _json([asdict(problem) for problem in problems])}
    job = load_job(path).named(None if path.parent.name != case else _job_id(path, case)).job
    try:
        plan = plan_job(job, environment, packages=_packages(job, package))
    except PlanError as error:
        return {"plan-error.txt": f"{error}\n"}
    found = {"plan.json": _json(job_document(plan)), "manifests.yaml": _manifests(render_manifests(plan))}
    said = [asdict(warning) for warning in warnings]
    if said or plan.warnings:
        found["warnings.json"] = _json({"file": said, "plan": list(plan.warnings)})
    return found


def _packages(job: TrainingJobSpec, trainer: LocalPackage) -> list[LocalPackage]:
    """The packages that a job names on this machine, as if they were there; the trainer comes last."""
    named = [replace(trainer, file_name=Path(path).name) for path in job.encamp.packages or ()]
    return [*named, *([trainer] if job.encamp.package_path else [])]


def _job_id(path: Path, case: str) -> str:
    job_file: JobFile = load_job(path)
    return job_file.job.job_id or case.replace("-", "_")


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _manifests(manifests: Manifests) -> str:
    config_map = json.loads(json.dumps(manifests.config_map))
    config_map["data"]["bootstrap.py"] = SCRIPT
    study = manifests.study
    if study is not None:
        # To be read and reviewed: what is JSON in it is written as what it means.
        study = {**study, "data": {name: json.loads(text) for name, text in study["data"].items()}}
    return replace(manifests, config_map=config_map, study=study).to_yaml()


@pytest.mark.parametrize("case", CASES)
def test_a_job_becomes_what_stands_in_its_folder(
    case: str, environment: EnvironmentSpec, package: LocalPackage, request: pytest.FixtureRequest
) -> None:
    found = expected(case, environment_of(case, environment), package)
    folder = GOLDEN / case
    if request.config.getoption("--rewrite-goldens"):
        for stale in folder.glob("*"):
            if stale.name not in WRITTEN:
                stale.unlink()
        for name, text in found.items():
            (folder / name).write_text(text, encoding="utf-8")
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.name not in WRITTEN}
    assert found == written


def test_every_example_has_a_golden() -> None:
    assert EXAMPLES
    assert set(EXAMPLES) <= set(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if (GOLDEN / case / "manifests.yaml").exists()])
def test_golden_manifests_read_back_in_the_order_of_their_creation(case: str) -> None:
    text = (GOLDEN / case / "manifests.yaml").read_text(encoding="utf-8")
    kinds = [each["kind"] for each in yaml.safe_load_all(text)]
    queued = kinds.count("ProvisioningRequest")
    claims = ["ResourceClaimTemplate"] * kinds.count("ResourceClaimTemplate")
    between = claims + ["PodTemplate"] * queued + ["ProvisioningRequest"] * queued
    last = "ConfigMap" if case.removeprefix("example-").startswith("tuning") else "JobSet"
    assert kinds == ["ServiceAccount", "ConfigMap", "NetworkPolicy", *between, last]
