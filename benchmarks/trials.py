"""What encamp itself adds to a trial: a study of trials that end at once, driven against an API server on loopback.

Counted is the time of the driver's own steps: to ask the search, to put the trial on record, to make its JobSet, to
look at it, to judge it, and beside that to seal its log, keep the results and delete the JobSet. The training, the
cluster's own work and the pauses between looks are not. The floor is the same requests to the same servers without
anything around them. The API server and Google are fakes in Python, so what they take is in both.

    python benchmarks/trials.py [TRIALS] [AT A TIME]
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.rest import GoogleClient
from encamp.spec.tuning import Algorithm
from encamp.tuning.methods import search_for

TESTS = Path(__file__).resolve().parents[1] / "tests"
#: Trials, and how many at a time.
DEFAULTS = (50, 5)
#: What may be added to a trial.
MOST_SECONDS = 0.2


def module(name: str, path: str) -> Any:
    """A module of the tests by its file."""
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"no {path}")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def driven(job: Any, trials: int) -> tuple[float, int]:
    """Seconds in the driver's steps until all trials have ended, and how many steps that took."""
    driver = job.driver()
    spent, steps, ended = 0.0, 0, set[int]()
    outcome = None
    while outcome is None:
        for number in sorted(set(job.job_sets()) - ended):
            job.runs(number, 1 / number, 2 / number, code=0)
            ended.add(number)
        begun = time.perf_counter()
        outcome, _ = driver.look()
        spent += time.perf_counter() - begun
        steps += 1
        time.sleep(0.01)
    begun = time.perf_counter()
    driver.close()
    spent += time.perf_counter() - begun
    if len(job.trials()) != trials:
        raise SystemExit(f"{len(job.trials())} trials instead of {trials}")
    return spent, steps


def floor(study: Any, job: Any, trials: int) -> float:
    """Seconds of a trial's requests alone: a POST, two listings, a DELETE, two uploads."""
    begun = time.perf_counter()
    for number in range(trials):
        name = f"floor-{number}"
        manifest = {"metadata": {"name": name, "labels": dict(study.LABELS)}}
        job.cluster.create("jobsets", "n", manifest)
        job.cluster.list("jobsets", "n", "encamp-job=floor")
        job.cluster.list("pods", "n", "encamp-job=floor")
        job.cluster.delete("jobsets", "n", name, wait=False)
        for kind in ("log", "json"):
            job.storage.upload("artifacts", f"floor/{name}.{kind}", b"x" * 1000, "text/plain")
    return time.perf_counter() - begun


def main() -> None:
    """Print seconds a trial, and fail where they are more than promised."""
    trials, parallel = (*map(int, sys.argv[1:]), *DEFAULTS[len(sys.argv) - 1 :])
    servers = module("encamp_bench_servers", "cloud/servers.py")
    study = module("encamp_bench_study", "run/studies/test_supervisor.py")
    worst = 0.0
    for algorithm in (Algorithm.RANDOM_SEARCH, Algorithm.ALGORITHM_UNSPECIFIED):
        plan = replace(study.PLAN, algorithm=algorithm, max_trials=trials, max_parallel_trials=parallel)
        search_for(plan).ask([], 1)  # what is imported once counts for no trial
        with (
            servers.KubernetesServer() as kubernetes,
            servers.GoogleServer() as google,
            requests.Session() as session,
            tempfile.TemporaryDirectory() as folder,
        ):
            google.buckets["artifacts"] = {}
            cluster = Cluster(kubernetes.kubeconfig())
            client = GoogleClient(session, environ=google.environ())
            job = study.Job(kubernetes, google, cluster, client, Path(folder))
            job.study(plan)
            spent, steps = driven(job, trials)
            least = floor(study, job, trials)
            for _, streams in job.drivers:
                streams.close()
            job.records.close()
            cluster.close()
        each = spent / trials
        worst = max(worst, each)
        print(
            f"{algorithm:<24} {trials} trials, {parallel} at a time: {each * 1000:.1f} ms a trial in {steps} steps; "
            f"its requests alone {least / trials * 1000:.1f} ms"
        )
    if worst > MOST_SECONDS:
        raise SystemExit(f"more than {MOST_SECONDS:g} s a trial")


if __name__ == "__main__":
    main()
