"""Runs the components of a stack against Pulumi's own mocks, and notes what they register.

A stack is a committed one, ``job/CASE`` for a job of ``job_cases.py``, ``environment/NAME`` for a file of
``environments/``, ``program/NAME`` for one of ``other_programs/``, or ``example`` for that of ``examples/own-program``.
For a process of its own, because Pulumi's runtime is global to one: see ``programs.py``.
"""

from __future__ import annotations

import contextlib
import copy
import runpy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pulumi
import yaml
from pulumi.runtime import stack as runtime_stack
from pulumi.runtime.rpc import wrap_rpc_secret
from pulumi.runtime.sync_await import _sync_await
from tests.job_cases import REPOSITORY, job_case

from encamp.components.environment import PlannedEnvironment
from encamp.components.training_job import PlannedJob
from encamp.packaging.local import local_packages
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, load_environment, parse_environment
from encamp.spec.job_stack import read_job_stack

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

DEADLINE = "1800000000"
CLUSTER = "projects/sandbox-encamp/locations/us-central1/clusters/encamp"
#: What a cloud would compute of each type.
COMPUTED: dict[str, dict[str, Any]] = {
    "gcp:monitoring/notificationChannel:NotificationChannel": {
        "name": "projects/my-lab-project/notificationChannels/1"
    },
    "gcp:container/cluster:Cluster": {
        "endpoint": "10.0.0.2",
        "masterAuth": {"clusterCaCertificate": "Q0E="},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "gke-42.us-central1.gke.goog", "allowExternalTraffic": True}
        },
    },
    "gcp:serviceaccount/account:Account": {
        "email": "job@sandbox-encamp.iam.gserviceaccount.com",
        "member": "serviceAccount:job@sandbox-encamp.iam.gserviceaccount.com",
    },
}
#: What a cloud shows of what is read instead of made.
FOUND = {
    "gcp:container/cluster:Cluster": {
        "name": "platform",
        "workloadIdentityConfig": {"workloadPool": "my-lab-project.svc.id.goog"},
        "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"},
        "addonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}},
    },
    "gcp:storage/bucket:Bucket": {"name": "team-results"},
    "gcp:artifactregistry/repository:Repository": {"repositoryId": "team"},
}


def computed(token: str) -> dict[str, Any]:
    """What a cloud computes of a type, with what the official schema marks as a secret."""
    found = copy.deepcopy(COMPUTED.get(token, {}))
    if "masterAuth" in found:
        found["masterAuth"]["clientKey"] = wrap_rpc_secret("key")
    return found


class Recorder(pulumi.runtime.Mocks):
    """Answers every registration with its inputs, an id, and what a cloud would compute."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self.exported: dict[str, pulumi.Output[Any]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        key = f"{args.typ} {args.name}"
        if args.resource_id:
            self.resources[key] = {"found": args.resource_id}
            return args.resource_id, {**FOUND.get(args.typ, {}), **computed(args.typ)}
        self.resources[key] = dict(args.inputs)
        made = {**args.inputs, **computed(args.typ)}
        if "controlPlaneEndpointsConfig" not in args.inputs:
            # Nobody asked for a name that lets anybody in.
            made.pop("controlPlaneEndpointsConfig", None)
        if args.typ == "gcp:projects/iAMCustomRole:IAMCustomRole":
            made["name"] = "projects/{project}/roles/{roleId}".format(**args.inputs)
        return f"{args.name}-id", made

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        if args.token.endswith(":getProjectServiceAccount"):
            return {"emailAddress": "service-42@gs-project-accounts.iam.gserviceaccount.com"}, []
        if not args.token.endswith(":getProject"):
            raise AssertionError(f"components ask for the project and its agent only, but {args.token} was called")
        return {"projectId": args.args["projectId"], "number": "42"}, []


def written_environment(name: str) -> EnvironmentSpec:
    """An environment of ``environments/``."""
    file = Path(__file__).with_name("environments") / f"{name}.yaml"
    return parse_environment(yaml.safe_load(file.read_text()), project="lab", source=file.name)


def declare(stack: str) -> dict[str, pulumi.Input[object]]:
    """Declare the resources of a stack; returns its outputs."""
    if stack.startswith("job/"):
        return declare_job(stack.removeprefix("job/"))
    if stack.startswith("environment/"):
        planned = plan_environment(written_environment(stack.removeprefix("environment/")))
        return PlannedEnvironment(planned.name, planned).outputs
    if stack.startswith("program/"):
        return declare_program(Path(__file__).parent / "other_programs" / f"{stack.removeprefix('program/')}.py")
    if stack == "example":
        return declare_program(REPOSITORY / "examples" / "own-program" / "__main__.py")
    config = yaml.safe_load((REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    if "encamp:job" not in config:
        planned = plan_environment(load_environment(stack, REPOSITORY))
        return PlannedEnvironment(planned.name, planned).outputs
    found = read_job_stack(config["encamp:job"], repository=REPOSITORY, stack=stack)
    environment = load_environment(config["encamp:environmentStack"], REPOSITORY)
    plan = plan_job(found.job, environment, packages=local_packages(found))
    return declare_plan(plan)


def declare_program(file: Path) -> dict[str, pulumi.Input[object]]:
    """Run a program that is not encamp's own, as the engine would, without a cloud that could be looked at."""
    pulumi.runtime.set_all_config(
        {"gcp:project": "my-lab-project", "gcp:region": "us-central1", "encamp:cluster": "platform"}
    )
    with (
        mock.patch("encamp.public_components.training_job._look_ahead", return_value=()),
        contextlib.chdir(file.parent),
    ):
        runpy.run_path(str(file))
    return {}


def declare_job(case: str) -> dict[str, pulumi.Input[object]]:
    """A job in the sandbox's environment with the changes of its case, or in the environment after an ``@``."""
    name, _, where = case.partition("@")
    found = job_case(name)
    usual = found.environment_in(load_environment("sandbox", REPOSITORY))
    return declare_plan(plan_job(found.job_file().job, written_environment(where) if where else usual))


def declare_plan(plan: JobPlan) -> dict[str, pulumi.Input[object]]:
    where = {"cluster": "encamp", "cluster_path": CLUSTER, "kubeconfig": "{}"}
    return PlannedJob(plan.name, plan, **where, deadline=DEADLINE).outputs


def registered(stack: str) -> dict[str, dict[str, Any]]:
    """The resources of a stack.

    ``pulumi:protected`` among them names those that the engine must not delete, ``pulumi:timeouts`` how long their
    operations are waited for.
    """
    recorder, options = run(stack)
    timeouts = {key: vars(found.custom_timeouts) for key, found in options.items() if found.custom_timeouts is not None}
    said: dict[str, dict[str, Any]] = {
        "pulumi:protected": {"resources": sorted(key for key, found in options.items() if found.protect)},
        "pulumi:timeouts": {
            key: {name: time for name, time in given.items() if time} for key, given in timeouts.items()
        },
    }
    return recorder.resources | {key: found for key, found in said.items() if any(found.values())}


def noted(stack: str) -> dict[str, Any]:
    """What the engine is told of a stack beside inputs: ignored paths by resource, and outputs that are secret."""
    recorder, options = run(stack)
    return {
        "ignored": {key: [str(path) for path in found.ignore_changes or ()] for key, found in options.items()},
        "secret": [name for name, value in recorder.exported.items() if _sync_await(value.is_secret())],
    }


@cache
def run(stack: str) -> tuple[Recorder, dict[str, pulumi.ResourceOptions]]:
    recorder = Recorder()
    options: dict[str, pulumi.ResourceOptions] = {}
    pulumi.runtime.set_mocks(recorder, project="encamp", stack=stack, preview=False)

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        options[f"{args.type_} {args.name}"] = args.opts

    def declared() -> None:
        pulumi.runtime.register_stack_transformation(note)
        recorder.exported = {name: pulumi.Output.from_input(value) for name, value in declare(stack).items()}

    _sync_await(runtime_stack.run_pulumi_func(declared))
    return recorder, options
