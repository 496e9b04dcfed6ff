"""The components as other programs declare them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.job_cases import job_case

import encamp
from encamp.errors import UsageError
from encamp.plan.job import plan_job
from encamp.spec.environment import load_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.rest import GoogleClient

    Resources = dict[str, dict[str, Any]]

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "own-program"
JOB_SET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"


@pytest.mark.slow
def test_the_example_declares_its_bucket_and_a_job_in_a_cluster_that_it_adopts(
    registered: Callable[[str], Resources],
) -> None:
    found = registered("example")
    assert found["gcp:container/cluster:Cluster vision"] == {
        "found": "projects/my-lab-project/locations/us-central1/clusters/platform"
    }
    assert found["gcp:storage/bucket:Bucket models"]["name"] == "my-lab-project-models"
    assert found["gcp:storage/bucket:Bucket vision-artifacts"]["name"] == "my-lab-project-vision"
    job_set = found[f"{JOB_SET} wine-job-set"]
    assert job_set["metadata"]["namespace"] == "vision-jobs"
    assert "gs://my-lab-project-models/wine" in str(job_set["spec"])
    grants = {inputs["bucket"] for key, inputs in found.items() if "BucketIAMMember wine-" in key}
    assert "my-lab-project-models" in grants


@pytest.mark.slow
def test_jobs_of_one_program_share_no_logical_name(registered: Callable[[str], Resources]) -> None:
    found = registered("program/jobs")
    kinds = {"first": set[str](), "second": set[str]()}
    for key in found:
        kind, _, name = key.partition(" ")
        job, _, rest = name.partition("-")
        if job in kinds and rest:
            kinds[job].add(f"{kind} {rest}")
    assert {f"{JOB_SET} job-set", "kubernetes:core/v1:ServiceAccount account"} < kinds["first"] & kinds["second"]
    assert (kinds["first"] | kinds["second"]).isdisjoint(found)
    # Its pools are made in the cluster that another stack's outputs name.
    (pool,) = [inputs for key, inputs in found.items() if key.startswith("gcp:container/nodePool:NodePool third-")]
    assert pool["cluster"] == "platform"
    labels = [found[f"{JOB_SET} {job}-job-set"]["metadata"]["labels"] for job in kinds]
    assert {(each["encamp-owner"], each["encamp-environment"]) for each in labels} == {("research", "lab")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("Environment('lab', {'regoin': 'us-central1'})", ["unknown field `regoin`", "write `region`"]),
        ("Environment('lab', EnvironmentSpec(region='here'))", ["'here' must be a region", "artifactsBucket"]),
        ("TrainingJob('wine', job='nowhere.yaml', environment=lab, preflight=False)", ["nowhere.yaml"]),
        (
            "TrainingJob('wine', job={'pythonModule': 'm.n'}, job_dir='here', environment=lab, preflight=False)",
            ["job_dir", "region"],
        ),
        (
            "TrainingJob('w', job={'region': 'here', 'args': ['--token=abcdefgh']}, secret=True, environment=lab)",
            ["TrainingJob 'w'"],
        ),
    ],
)
def test_what_is_wrong_reaches_the_engine_as_one_error(program: str, said: list[str], tmp_path: Path) -> None:
    """``pulumi.RunError`` is what the engine prints without a traceback."""
    code = f"""
import pulumi, pulumi.runtime
from encamp import Environment, EnvironmentReference, EnvironmentSpec, TrainingJob
lab = EnvironmentReference(
    EnvironmentSpec(name="lab", project="my-lab-project", region="us-central1", artifacts_bucket="b-lab"), "c", "{{}}"
)
try:
    {program}
except pulumi.RunError as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY / "infra"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    for part in said:
        assert part in ended.stdout
    assert "abcdefgh" not in ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings(r"ignore:gcp\..* has been deprecated:DeprecationWarning")
def test_a_job_that_has_ended_is_not_declared_again(
    google: Any, client: GoogleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from encamp.public_components import training_job  # noqa: PLC0415 - takes a second

    monkeypatch.setattr(training_job, "GoogleClient", lambda: client)
    found = job_case("basic-bare").job_file().named("job")
    plan = plan_job(found.job, load_environment("sandbox", REPOSITORY))
    # A first `up` looks before the environment's bucket is made.
    assert training_job._look_ahead(plan, {plan.storage.bucket, "census-output", "census-packages"}) == ()
    google.add_bucket(plan.storage.bucket)
    google.objects[plan.storage.bucket, "jobs/job/receipt.json"] = b"{}"
    with pytest.raises(UsageError, match="job job has ended") as raised:
        training_job._look_ahead(plan, {plan.storage.bucket})
    assert "another job_id" in str(raised.value)


def test_importing_encamp_imports_nothing_more() -> None:
    code = "import sys; before = set(sys.modules); import encamp; dir(encamp); print(sorted(set(sys.modules) - before))"
    ended = subprocess.run(
        [sys.executable, "-S", "-c", f"import importlib, typing; {code}"],
        env={"PYTHONPATH": str(REPOSITORY / "infra"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ast.literal_eval(ended.stdout) == ["__future__", "encamp", "encamp.version"]


def test_every_public_name_is_there_and_documented() -> None:
    page = (REPOSITORY / "docs" / "programs.md").read_text()
    for name in set(encamp.__all__) - {"__version__"}:
        assert getattr(encamp, name).__doc__, name
        assert f"`{name}`" in page, name
    assert set(encamp.__all__) <= set(dir(encamp))
    with pytest.raises(AttributeError, match="no attribute 'PlannedJob'"):
        _ = encamp.PlannedJob  # type: ignore[attr-defined]


def public_imports(file: Path) -> set[str]:
    """What a program imports of encamp, as dotted names; a module stands for all that is in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] == "encamp"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "encamp":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_example_imports_public_names_alone() -> None:
    """Whoever copies it out of the repository has what every version of encamp keeps."""
    found = {name for file in EXAMPLE.rglob("*.py") for name in public_imports(file)}
    assert found == {"encamp.Environment", "encamp.EnvironmentSpec", "encamp.TrainingJob"}
    assert found <= {f"encamp.{name}" for name in encamp.__all__}
    assert not [path for path in EXAMPLE.rglob("*") if path.is_symlink()]
