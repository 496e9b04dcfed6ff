"""Checks of a create: the rules of job files, the environment's plan and policy, and the cloud's state.

Nothing is written. Files of the server are out of a request's reach: packages are uploaded first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from encamp.api.errors import ApiError, wrong_fields
from encamp.api.resource import kept_job
from encamp.cloud.rest import RestError
from encamp.errors import EncampError, PlanError, Problem, SpecError, UsageError
from encamp.plan.job import plan_job
from encamp.plan.names import short_name
from encamp.plan.policy import PolicyError
from encamp.preflight import DataError
from encamp.run.lifecycle.driver import JobEndedError
from encamp.spec.encamp import LOCAL_FIELDS
from encamp.spec.job_file import is_bare, parse_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec

#: Bytes of a Job as it is kept. Its arguments have a bound of their own, in job files too.
LARGEST_JOB_BYTES: Final = 128 * 1024
_LOCAL_FOLDER: Final = "encamp.packagePath"


@dataclass(frozen=True)
class ReadJob:
    """A Job of a request that keeps every rule.

    Attributes:
        data: as it is kept, see ``kept_job``.
        name: its cloud name.
    """

    job_id: str
    name: str
    job: TrainingJobSpec
    data: dict[str, Any]


class Planner:
    """Judges jobs for one environment.

    Args:
        spec: the environment's committed spec.
        look: looks at what would make a job fail, as ``driver.look_ahead`` does.
    """

    def __init__(self, spec: EnvironmentSpec, look: Callable[[JobPlan], None]) -> None:
        self._spec = spec
        self._look = look

    def read(self, body: Mapping[str, Any]) -> ReadJob:
        """Return the Job of a request.

        Raises:
            ApiError: INVALID_ARGUMENT, with every field that is wrong.
        """
        if is_bare(body):
            message = "the fields of a TrainingInput stand at the top"
            raise wrong_fields([Problem("trainingInput", None, None, message, "put them into trainingInput")])
        try:
            job = parse_job(body, source="the request").job
        except SpecError as error:
            raise wrong_fields([_from_afar(problem) for problem in error.problems]) from None
        problems = [*_missing(job), *_local(job)]
        if problems or job.job_id is None:
            raise wrong_fields(problems)
        name = short_name(self._spec.project, self._spec.name, job.job_id)
        kept = kept_job(job)
        size = len(json.dumps(kept))
        if size > LARGEST_JOB_BYTES:
            message = f"is {size} bytes long as JSON; at most {LARGEST_JOB_BYTES}"
            raise wrong_fields([Problem("job", None, None, message, "put long values into a file, and name that")])
        return ReadJob(job.job_id, name, job, kept)

    def plan(self, read: ReadJob) -> JobPlan:
        """Return the plan of a job that may be begun here.

        Raises:
            ApiError: FAILED_PRECONDITION, with what speaks against it; ALREADY_EXISTS where a job of this id has ended
                on another machine; UNAVAILABLE where the cloud cannot be asked.
        """
        try:
            plan = plan_job(read.job, self._spec)
            self._look(plan)
        except JobEndedError:
            raise already_there() from None
        except DataError as error:
            raise _refused(list(error.problems)) from None
        except PolicyError as error:
            refusing = [found for found in error.findings if found.refuses]
            raise _refused([Problem(one.where, None, one.rule, str(one), one.hint) for one in refusing]) from None
        except (PlanError, UsageError) as error:
            where = error.where if isinstance(error, PlanError) and error.where else "trainingInput"
            raise _refused([Problem(where, None, None, error.what, error.hint)]) from None
        except RestError as error:
            raise ApiError("UNAVAILABLE", f"The cloud cannot be asked about the job: {error.what}.") from None
        except EncampError as error:
            raise ApiError("FAILED_PRECONDITION", str(error)) from None
        return plan


def already_there() -> ApiError:
    """Return the error for a used job id, in AI Platform's words."""
    wrong = wrong_fields([Problem("job.jobId", None, None, "A job with this id already exists.")])
    return ApiError("ALREADY_EXISTS", wrong.message, details=wrong.details)


def _from_afar(problem: Problem) -> Problem:
    """Return a problem with advice that can be followed by who sends a request."""
    if problem.hint is None or _LOCAL_FOLDER not in problem.hint:
        return problem
    return replace(problem, hint="upload a package, and name it by its gs:// address")


def _missing(job: TrainingJobSpec) -> list[Problem]:
    if job.job_id is not None:
        return []
    return [Problem("jobId", None, "V01", "is missing: a job has an id", "such as census_20260131_120000")]


def _local(job: TrainingJobSpec) -> list[Problem]:
    """Return fields that name files here."""
    hint = "upload them, and name them in packageUris"
    return [
        Problem(f"encamp.{to_camel(name)}", None, "E12", "names files of the server, which no request reaches", hint)
        for name in LOCAL_FIELDS
        if getattr(job.encamp, name) is not None
    ]


def _refused(problems: list[Problem]) -> ApiError:
    """Return the error for a valid job that cannot run here."""
    wrong = wrong_fields(problems)
    return ApiError("FAILED_PRECONDITION", wrong.message, details=wrong.details)
