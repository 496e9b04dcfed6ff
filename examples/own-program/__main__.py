"""The program of `pulumi up`: a bucket, an environment in the platform team's cluster, and a training job in it."""

from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from encamp import Environment, EnvironmentSpec, TrainingJob

google = pulumi.Config("gcp")
project, region = google.require("project"), google.require("region")

# Names are plain text: the job is planned, and its price said, before anything of it exists.
models = f"{project}-models"
bucket = gcp.storage.Bucket(
    "models",
    name=models,
    location=region.upper(),
    uniform_bucket_level_access=True,
    public_access_prevention="enforced",
    # This is an example: `pulumi destroy` deletes what is in it, too.
    force_destroy=True,
)

# The cluster is read and looked at, never changed; a namespace, a registry and a bucket of its own come into being.
environment = Environment(
    "vision",
    EnvironmentSpec(
        region=region,
        adopt=("cluster",),
        cluster=pulumi.Config().require("cluster"),
        namespace="vision-jobs",
        registry="vision",
        artifacts_bucket=f"{project}-vision",
    ),
)

job = TrainingJob(
    "wine",
    job=Path(__file__).parent / "wine.yaml",
    job_dir=f"gs://{models}/wine",
    environment=environment,
    makes={models: bucket},
)

pulumi.export("jobSet", job.job_set)
pulumi.export("jobDir", job.job_dir)
pulumi.export("namespace", environment.namespace)
