"""Pods that run engines have the memory that engines take: measured, see decision 0172."""

from __future__ import annotations

from pathlib import Path

import yaml

from encamp.plan.environment.driver import driver_job, plan_driver
from encamp.plan.environment.in_cluster import ENDINGS_AT_ONCE, memory_gib
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment

#: What a driver and a reaper that ended six jobs at once took, in MiB (proportional set size), with the official
#: Kubernetes plugin and without Google's; and what plugins as large as Google's take each by their users.
DRIVER_MIB, REAPER_MIB, GOOGLE_PLUGIN_MIB = 464, 764, 430


def test_a_driver_holds_an_engine_with_both_plugins() -> None:
    assert memory_gib(1) * 1024 > DRIVER_MIB + GOOGLE_PLUGIN_MIB


def test_a_reaper_holds_as_many_engines_as_it_runs_at_once() -> None:
    assert memory_gib(ENDINGS_AT_ONCE) * 1024 > REAPER_MIB + ENDINGS_AT_ONCE * GOOGLE_PLUGIN_MIB


def test_drivers_are_scheduled_for_what_they_take() -> None:
    image = {"image": "i:1", "backendUrl": "gs://state", "recordSecret": "s"}
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "driver": image}
    plan = plan_driver(parse_environment(data, project="my-project", source="x"), {}, ())
    assert plan is not None
    (container,) = driver_job(plan, "lab", "j", "j-1")["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}


def test_the_jobs_api_alone_names_others_to_drivers() -> None:
    folder = Path(__file__).parents[1] / "components" / "environments"
    told = {}
    for name in ("with-drivers", "with-an-api"):
        written = yaml.safe_load((folder / f"{name}.yaml").read_text())
        plan = plan_environment(parse_environment(written, project=None, source="x"))
        assert plan.driver is not None
        told[name] = plan.driver.speaks_for_others, plan.api.name if plan.api is not None else None
    assert told["with-drivers"] == (None, None)
    user, name = told["with-an-api"]
    assert user == f"system:serviceaccount:{name}:{name}"
