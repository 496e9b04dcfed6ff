"""What `encamp plan` says of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp.plan.document import job_document
from encamp.plan.study import StudyPlan
from encamp.plan.table import job_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan

    Plan = Callable[..., JobPlan]

STUDY: dict[str, Any] = {
    "goal": "MINIMIZE",
    "hyperparameterMetricTag": "val\x1b[31m loss",
    "maxTrials": 20,
    "maxParallelTrials": 4,
    "maxFailedTrials": 3,
    "enableTrialEarlyStopping": True,
    "resumePreviousJobId": "earlier",
    "params": [
        {"parameterName": "rate", "type": "DOUBLE", "minValue": 1e-5, "maxValue": 1, "scaleType": "UNIT_LOG_SCALE"},
        {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["adam", "a, b", " ", "x\ny"]},
        {"parameterName": "batch", "type": "DISCRETE", "discreteValues": list(range(100, 900))},
    ],
}
SHOWN = """\
Study
  search   Bayesian optimisation, MINIMIZE "val\\u001b[31m loss"
  trials   20, 4 at a time; machines, quotas and cost are for these
  failed   3 failed trials end the job
  stopping unpromising trials are stopped early
  resumes  the study of job earlier
  PARAMETER  TYPE         VALUES                                                                   SCALE
  rate       DOUBLE       1e-05 .. 1                                                               log
  kind       CATEGORICAL  adam, "a, b", " ", "x\\ny"                                                -
  batch      DISCRETE     100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, ... (800 in all)  linear
"""


def test_a_study_stands_before_the_replicas_of_a_trial(plan_input: Plan) -> None:
    table = job_table(plan_input(hyperparameters=STUDY, args=["--x"], jobDir="gs://bucket/out"), full=True)
    shown = [line.split() for line in SHOWN.splitlines()]
    lines = [line.split() for line in table.splitlines()]
    start = lines.index(["Study"])
    assert lines[start : start + len(shown)] == shown
    assert "\nReplicas of a trial\n" in table
    words = " ".join(table.replace("\\\n", "").split())
    assert "--x '--rate=<rate>' '--kind=<kind>' '--batch=<batch>' --job-dir gs://bucket/out" in words
    assert "\nTF_CONFIG of trial 1\n" in table
    assert "\x1b" not in table
    assert "retries  5 of a replica, then 3 of the whole trial" in table


def test_the_document_holds_the_study_and_its_first_trial(plan_input: Plan) -> None:
    plan = plan_input(hyperparameters=STUDY)
    document = job_document(plan)
    assert StudyPlan.from_json(document["study"]) == plan.study
    (replica,) = document["replicas"]
    assert replica["tfConfig"]["task"]["trial"] == replica["env"]["CLOUD_ML_TRIAL_ID"] == "1"
    assert "study" not in job_document(plan_input())
