"""The study object in a cluster: its search, and each trial's JobSet from its template."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.plan.manifests.views import STUDY_FILE, TEMPLATE_FILE
from encamp.plan.model import DEADLINE_LABEL
from encamp.plan.study import StudyPlan
from encamp.plan.trial import trial_job_set
from encamp.run.store.trial_journal import read_trial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.cloud.kubernetes import Cluster
    from encamp.tuning.model import Trial

#: Annotation of a trial's JobSet: the trial as it was when it began, so that a lost record loses no trial.
TRIAL_ANNOTATION = "encamp/trial"


class UnreadableStudyError(EngineError):
    """The study is there, and is not understood."""


@dataclass(frozen=True)
class StudyObject:
    """A study as its cluster has it.

    Attributes:
        template: the JobSet that trials are made from.
        uid: of the object, which owns them all.
        deadline: value of its deadline label, None if it has none.
    """

    plan: StudyPlan
    name: str
    uid: str
    template: Mapping[str, Any]
    deadline: str | None

    @property
    def replicas(self) -> int:
        """The number of a trial's replicas."""
        groups = self.template["spec"]["replicatedJobs"]
        return sum(int(group["template"]["spec"].get("completions") or 1) for group in groups)

    def job_set(self, trial: Trial, seconds: int) -> dict[str, Any]:
        """Return the JobSet of a trial, which the cluster ends by itself after ``seconds``."""
        arguments = trial.arguments
        found = trial_job_set(
            self.template,
            trial.number,
            {one.name: arguments[one.name] for one in self.plan.parameters},
            owner_name=self.name,
            owner_uid=self.uid,
            seconds=seconds,
            deadline=self.deadline,
            parent=trial.parent,
        )
        metadata = found["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), TRIAL_ANNOTATION: json.dumps(trial.to_json())}
        return found


def read_study(cluster: Cluster, namespace: str, name: str) -> StudyObject | None:
    """Return the study of a job with a cloud name; None if it is gone.

    Raises:
        UnreadableStudyError: what is there is no study of this version.
        EngineError: the cluster gives no answer.
    """
    found = cluster.get("configmaps", namespace, name)
    if found is None:
        return None
    try:
        metadata, data = found["metadata"], found["data"]
        return StudyObject(
            plan=StudyPlan.from_json(json.loads(data[STUDY_FILE])),
            name=name,
            uid=metadata["uid"],
            template=json.loads(data[TEMPLATE_FILE]),
            deadline=(metadata.get("labels") or {}).get(DEADLINE_LABEL),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableStudyError(
            f"this is no study that encamp can read: {error}",
            where=f"configmap {namespace}/{name}",
            hint="end the job with the version of encamp that started it",
        ) from error


def begun_as(job_set: Mapping[str, Any]) -> Trial | None:
    """Return the trial of a JobSet as it was when it began, None if nothing says it."""
    try:
        return read_trial(json.loads((job_set["metadata"].get("annotations") or {})[TRIAL_ANNOTATION]))
    except (KeyError, ValueError):
        return None
