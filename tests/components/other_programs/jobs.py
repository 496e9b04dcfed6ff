"""Jobs of a program: of a mapping and of typed arguments in its own environment, and one in that of another stack."""

from __future__ import annotations

from encamp import (
    EncampSpec,
    Environment,
    EnvironmentReference,
    TrainingInputSpec,
    TrainingJob,
    TrainingJobSpec,
)

environment = Environment("lab", {"region": "us-central1", "artifactsBucket": "lab-artifacts", "owner": "research"})
IMAGE = {"imageUri": "python:3.11-slim"}
first = TrainingJob(
    "first",
    job={"trainingInput": {"scaleTier": "BASIC", "region": "us-central1", "masterConfig": IMAGE}},
    environment=environment,
)
typed = TrainingJobSpec(
    training_input=TrainingInputSpec.model_validate(
        {"scale_tier": "BASIC", "region": "us-central1", "master_config": {"image_uri": "python:3.11-slim"}}
    ),
    encamp=EncampSpec.model_validate({"storage": {"kind": "ENVIRONMENT"}}),
)
second = TrainingJob("second", job=typed, environment=environment, job_id="the_second")
assert (first.job_id, second.job_id) == ("first", "the_second")
assert first.job_dir is None
assert second.job_dir == "gs://lab-artifacts/jobs/the_second/output"
assert second.results == "gs://lab-artifacts/jobs/the_second/"
elsewhere = EnvironmentReference(environment.spec, cluster="platform", kubeconfig="{}")
third = TrainingJob("third", job=typed, environment=elsewhere)
assert (third.job_id, third.job_dir) == ("third", "gs://lab-artifacts/jobs/third/output")
