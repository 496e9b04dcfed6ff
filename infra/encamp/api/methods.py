"""Every method of the service in one table, from which routes, audit log, discovery and OpenAPI documents are made.

Sources: the job model, sections 1.3 (methods), 11 (permissions) and 12 (audit log); ml v1's public discovery form (ids,
paths and parameters).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class AuditKind(StrEnum):
    """The log of Cloud Audit Logs that a call belongs to."""

    ADMIN_ACTIVITY = "activity"
    DATA_ACCESS = "data_access"


@dataclass(frozen=True)
class Parameter:
    """A query parameter: ``kind`` is string or integer, both of JSON schema."""

    name: str
    kind: str
    description: str


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        id: such as ``projects.jobs.create``.
        verb: of HTTP.
        path: below the service's root; ``{project}``, ``{job}`` and ``{location}`` are one segment each.
        permission: what the caller needs; None if the method itself is about permissions.
        audit: the method's name in audit logs.
        request, response: names of their schemas; no request where nothing is sent.
    """

    id: str
    verb: str
    path: str
    permission: str | None
    audit: str
    kind: AuditKind
    response: str
    description: str
    request: str | None = None
    query: tuple[Parameter, ...] = ()

    @property
    def job_level(self) -> bool:
        """Whether it is about one job."""
        return "{job}" in self.path


_JOBS: Final = "v1/projects/{project}/jobs"
_JOB: Final = f"{_JOBS}/{{job}}"
_LOCATIONS: Final = "v1/projects/{project}/locations"
_SERVICE: Final = "google.cloud.ml.v1"
_POLICY: Final = "google.iam.v1.IAMPolicy"
_PAGES: Final = (
    Parameter("pageSize", "integer", "How many at most in one page: 1 to 100; 20 when absent."),
    Parameter("pageToken", "string", "The nextPageToken of the page before."),
)

METHODS: Final = (
    Method(
        "projects.jobs.create", "POST", _JOBS, "ml.jobs.create",
        f"{_SERVICE}.JobService.CreateJob", AuditKind.ADMIN_ACTIVITY, "Job",
        "Creates a training job.", request="Job",
    ),
    Method(
        "projects.jobs.list", "GET", _JOBS, "ml.jobs.list",
        f"{_SERVICE}.JobService.ListJobs", AuditKind.DATA_ACCESS, "ListJobsResponse",
        "Lists the jobs of the project, newest first. An empty list is an empty object.",
        query=(Parameter("filter", "string", "Such as: jobId:rnn* AND state:FAILED"), *_PAGES),
    ),
    Method(
        "projects.jobs.get", "GET", _JOB, "ml.jobs.get",
        f"{_SERVICE}.JobService.GetJob", AuditKind.DATA_ACCESS, "Job", "Describes a job.",
    ),
    Method(
        "projects.jobs.patch", "PATCH", _JOB, "ml.jobs.update",
        f"{_SERVICE}.JobService.UpdateJob", AuditKind.ADMIN_ACTIVITY, "Job",
        "Changes the labels of a job.", request="Job",
        query=(Parameter("updateMask", "string", "Fields to change: labels and etag."),),
    ),
    Method(
        "projects.jobs.cancel", "POST", f"{_JOB}:cancel", "ml.jobs.cancel",
        f"{_SERVICE}.JobService.CancelJob", AuditKind.ADMIN_ACTIVITY, "Empty",
        "Cancels a job that has not ended.", request="CancelJobRequest",
    ),
    Method(
        "projects.jobs.getIamPolicy", "GET", f"{_JOB}:getIamPolicy", "ml.jobs.getIamPolicy",
        f"{_POLICY}.GetIamPolicy", AuditKind.DATA_ACCESS, "Policy", "The policy of a job.",
        query=(Parameter("options.requestedPolicyVersion", "integer", "1 or 3; conditions are not kept here."),),
    ),
    Method(
        "projects.jobs.setIamPolicy", "POST", f"{_JOB}:setIamPolicy", "ml.jobs.setIamPolicy",
        f"{_POLICY}.SetIamPolicy", AuditKind.ADMIN_ACTIVITY, "Policy",
        "Replaces the policy of a job.", request="SetIamPolicyRequest",
    ),
    Method(
        "projects.jobs.testIamPermissions", "POST", f"{_JOB}:testIamPermissions", None,
        f"{_POLICY}.TestIamPermissions", AuditKind.DATA_ACCESS, "TestIamPermissionsResponse",
        "Which of some permissions the caller has on a job.", request="TestIamPermissionsRequest",
    ),
    Method(
        "projects.getConfig", "GET", "v1/projects/{project}:getConfig", "ml.projects.getConfig",
        f"{_SERVICE}.ProjectManagementService.GetConfig", AuditKind.DATA_ACCESS, "GetConfigResponse",
        "The service account that jobs run with.",
    ),
    Method(
        "projects.locations.list", "GET", _LOCATIONS, "ml.locations.list",
        f"{_SERVICE}.ProjectManagementService.ListLocations", AuditKind.DATA_ACCESS, "ListLocationsResponse",
        "Lists where jobs can run, and on which accelerators.", query=_PAGES,
    ),
    Method(
        "projects.locations.get", "GET", f"{_LOCATIONS}/{{location}}", "ml.locations.get",
        f"{_SERVICE}.ProjectManagementService.GetLocation", AuditKind.DATA_ACCESS, "Location",
        "Describes where jobs can run.",
    ),
)  # fmt: skip

#: The method by which gcloud streams logs: Cloud Logging's, so in no document of this service.
LOG_ENTRIES: Final = Method(
    "entries.list", "POST", "v2/entries:list", "ml.jobs.get",
    "google.logging.v2.LoggingServiceV2.ListLogEntries", AuditKind.DATA_ACCESS, "ListLogEntriesResponse",
    "Lists lines of jobs' logs.", request="ListLogEntriesRequest",
)  # fmt: skip
