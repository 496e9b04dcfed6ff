"""Which errors of an engine run may pass: in the words of Google's client, of API servers, and of the engine."""

from __future__ import annotations

import pytest

from encamp.run.engine.transient import is_existing, is_not_seen_yet, is_transient

ACCOUNT = "j-0123abcd@p.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    "message",
    [
        "googleapi: Error 429: Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'.",
        "googleapi: Error 403: Quota exceeded for quota metric 'Queries', rateLimitExceeded",
        "googleapi: Error 500: Internal error encountered., backendError",
        "googleapi: Error 503: The service is currently unavailable., backendError",
        "googleapi: Error 504: The request timed out; it may have been done., deadlineExceeded",
        "googleapi: got HTTP response code 502 with body: <!DOCTYPE html>",
        "googleapi: Error 409: Cluster is running incompatible operation., failedPrecondition",
        "googleapi: Error 400: Cluster is running incompatible operation operation-1-2, failedPrecondition",
        "googleapi: Error 400: Operation operation-1 is currently upgrading cluster c., failedPrecondition",
        'googleapi: Error 429: Too many operations: cluster "c" hits the concurrent operations quota 5',
        "googleapi: Error 409: There were concurrent policy changes. Please retry the whole read-modify-write, aborted",
        "Error waiting for creating GKE NodePool: Error code 13, message: Internal error.",
        'Get "https://container.googleapis.com/v1/x": dial tcp 142.250.1.1:443: connect: connection refused',
        'Post "https://storage.googleapis.com/b": read tcp 10.0.0.1:1->1.2.3.4:443: read: connection reset by peer',
        'Get "https://iam.googleapis.com/v1/x": net/http: TLS handshake timeout',
        'Get "https://iam.googleapis.com/v1/x": context deadline exceeded (Client.Timeout exceeded)',
        'Post "https://x": unexpected EOF',
        "the server is currently unable to handle the request (post jobsets.jobset.x-k8s.io)",
        'Internal error occurred: failed calling webhook "mjobset.kb.io": connect: connection refused',
        "etcdserver: request timed out",
        'Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes',
        "timed out waiting for the condition",
        "configured Kubernetes cluster is unreachable: unable to load schema information from the API server",
        "the Kubernetes cluster is unreachable: the API server does not answer: ConnectError",
        "rpc error: code = Unavailable desc = error reading from server: EOF",
        "this connection has not configured the provider",
        "the engine was killed (SIGKILL)",
        'could not query for stacks: blob (key "x") (code=Unknown): googleapi: Error 503: Backend Error',
    ],
)
def test_what_may_pass(message: str) -> None:
    assert is_transient(message)


@pytest.mark.parametrize(
    "message",
    [
        "googleapi: Error 403: The caller does not have permission., forbidden",
        "googleapi: Error 403: Insufficient regional quota to satisfy request., quotaExceeded",
        "googleapi: Error 403: Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1., quotaExceeded",
        "googleapi: Error 429: Maximum number of service accounts on project reached., quotaExceeded",
        "googleapi: Error 503: ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available.",
        "googleapi: Error 503: no capacity, insufficientCapacity",
        "googleapi: Error 400: Precondition check failed., failedPrecondition",
        "googleapi: Error 400: Invalid value for field 'machineType'., badRequest",
        "googleapi: Error 404: Not found: projects/p/locations/l/clusters/c., notFound",
        "googleapi: Error 409: Already exists: projects/p/zones/z/clusters/c/nodePools/n., alreadyExists",
        'resource "x" was not created: configmaps "x" already exists',
        'JobSet "x" is invalid: spec.replicatedJobs: Required value',
        "Traceback (most recent call last): KeyError: 500",
        "unknown resource type",
        "",
    ],
)
def test_what_stays(message: str) -> None:
    assert not is_transient(message)


def test_what_is_there_already_is_told_from_other_conflicts() -> None:
    assert is_existing("googleapi: Error 409: Your previous request to create the bucket succeeded., conflict")
    assert is_existing('configmaps "x" already exists')
    assert not is_existing("googleapi: Error 409: Cluster is running incompatible operation., failedPrecondition")


def test_what_was_just_made_may_not_be_seen_yet() -> None:
    message = f"googleapi: Error 400: Service account {ACCOUNT} does not exist., badRequest"
    assert is_not_seen_yet(message, {ACCOUNT})
    assert not is_not_seen_yet(message, {"other@p.iam.gserviceaccount.com"})
    assert not is_not_seen_yet(f"googleapi: Error 400: {ACCOUNT} has no domain., badRequest", {ACCOUNT})
