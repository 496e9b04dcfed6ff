"""Google's own client for Python as it comes: by our discovery document, read or fetched, and by its own public one."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import httplib2
import pytest
import requests
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build, build_from_document
from googleapiclient.errors import HttpError
from tests.api.world import ADMIN, DEVELOPER, PROJECT, VIEWER, World, job, served, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Builder = Callable[..., Any]

pytestmark = pytest.mark.slow
PARENT = f"projects/{PROJECT}"
_DISCOVERY = "$discovery/rest?version="


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    with world(tmp_path_factory.mktemp("service")) as found, served(found.app) as url:
        yield found, url


def from_document(url: str, **sent_by: Any) -> Any:
    document = requests.get(f"{url}{_DISCOVERY}v1", timeout=10).json()
    return build_from_document(document, **sent_by)


def from_url(url: str, **sent_by: Any) -> Any:
    where = f"{url}{_DISCOVERY}{{apiVersion}}"
    return build("ml", "v1", discoveryServiceUrl=where, cache_discovery=False, **sent_by)


def from_public_form(url: str, **sent_by: Any) -> Any:
    return build("ml", "v1", static_discovery=True, client_options={"api_endpoint": url}, **sent_by)


BUILDERS = [from_document, from_url, from_public_form]


@contextlib.contextmanager
def client(builder: Builder, url: str, token: str | None = ADMIN) -> Iterator[Any]:
    """What a script holds in its hand: ``projects()`` of a client that was built some way."""
    sent_by = {"credentials": Credentials(token)} if token is not None else {"http": httplib2.Http()}
    with builder(url, **sent_by) as found:
        yield found.projects()


def refused(request: Any) -> HttpError:
    with pytest.raises(HttpError) as caught:
        request.execute()
    return caught.value


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_script_of_before_works(builder: Builder, service: tuple[World, str]) -> None:
    name = f"script_{builder.__name__}"
    full = f"{PARENT}/jobs/{name}"
    with client(builder, service[1]) as projects:
        made = projects.jobs().create(parent=PARENT, body=job(name, labels={"team": "vision"})).execute()
        assert (made["jobId"], made["state"], made["labels"]) == (name, "QUEUED", {"team": "vision"})
        assert made["trainingInput"] == job(name)["trainingInput"]

        read = projects.jobs().get(name=full).execute()
        assert {key: read[key] for key in made} == made
        assert read["jobPosition"].isdigit()

        body = {"labels": {"team": "speech"}, "etag": read["etag"]}
        changed = projects.jobs().patch(name=full, updateMask="labels", body=body).execute()
        assert changed["labels"] == {"team": "speech"}
        assert changed["etag"] != read["etag"]
        stale = refused(projects.jobs().patch(name=full, updateMask="labels", body=body))
        assert (stale.status_code, status(stale)) == (409, "ABORTED")

        assert projects.jobs().cancel(name=full, body={}).execute() == {}
        ended = projects.jobs().get(name=full).execute()
        assert ended["state"] == "CANCELLED"
        assert ended["endTime"] >= ended["createTime"]
        again = refused(projects.jobs().cancel(name=full, body={}))
        assert (again.status_code, status(again)) == (400, "FAILED_PRECONDITION")


@pytest.mark.parametrize("builder", BUILDERS)
def test_pages_follow_each_other(builder: Builder, service: tuple[World, str]) -> None:
    prefix = f"page_{builder.__name__}"
    names = [f"{prefix}_{number}" for number in range(7)]
    with client(builder, service[1]) as projects:
        for name in names:
            projects.jobs().create(parent=PARENT, body=job(name)).execute()
        request = projects.jobs().list(parent=PARENT, filter=f"jobId:{prefix}_*", pageSize=3)
        pages = []
        while request is not None:
            answer = request.execute()
            pages.append([one["jobId"] for one in answer["jobs"]])
            # Others that are added meanwhile do not move the pages.
            projects.jobs().create(parent=PARENT, body=job(f"{prefix}_new_{len(pages)}")).execute()
            request = projects.jobs().list_next(request, answer)
        assert pages == [names[6:3:-1], names[3:0:-1], names[:1]]
        only = projects.jobs().list(parent=PARENT, filter=f"jobId={names[0]}", fields="jobs(jobId)").execute()
        assert only == {"jobs": [{"jobId": names[0]}]}
        assert projects.jobs().list(parent=PARENT, filter="jobId=nobody").execute() == {}


@pytest.mark.parametrize("builder", BUILDERS)
def test_policies_of_jobs(builder: Builder, service: tuple[World, str]) -> None:
    full = f"{PARENT}/jobs/policy_{builder.__name__}"
    asked = {"permissions": ["ml.jobs.cancel", "ml.jobs.get"]}
    with client(builder, service[1]) as projects, client(builder, service[1], VIEWER) as looking:
        projects.jobs().create(parent=PARENT, body=job(full.rpartition("/")[2])).execute()
        before = projects.jobs().getIamPolicy(resource=full).execute()
        assert before.keys() == {"etag"}
        assert looking.jobs().testIamPermissions(resource=full, body=asked).execute() == {
            "permissions": ["ml.jobs.get"]
        }

        bindings = [{"role": "roles/ml.jobOwner", "members": ["user:vic@example.com"]}]
        policy = {"policy": {"bindings": bindings, "etag": before["etag"]}}
        after = projects.jobs().setIamPolicy(resource=full, body=policy).execute()
        assert after["bindings"] == bindings
        stale = refused(projects.jobs().setIamPolicy(resource=full, body=policy))
        assert (stale.status_code, status(stale)) == (409, "ABORTED")
        assert looking.jobs().testIamPermissions(resource=full, body=asked).execute() == asked
        assert looking.jobs().getIamPolicy(resource=full).execute() == after
        assert looking.jobs().cancel(name=full, body={}).execute() == {}


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_project_and_its_locations(builder: Builder, service: tuple[World, str]) -> None:
    with client(builder, service[1], VIEWER) as projects:
        config = projects.getConfig(name=PARENT).execute()
        assert config["serviceAccountProject"] == "123456789"
        request = projects.locations().list(parent=PARENT, pageSize=10)
        found: list[dict[str, Any]] = []
        while request is not None:
            answer = request.execute()
            found += answer["locations"]
            request = projects.locations().list_next(request, answer)
        assert len({one["name"] for one in found}) == len(found) > 10
        assert projects.locations().get(name=found[0]["name"]).execute() == found[0]


def status(error: HttpError) -> str:
    return str(json.loads(error.content)["error"]["status"])


@pytest.mark.parametrize("builder", BUILDERS)
def test_refusals_have_their_reason(builder: Builder, service: tuple[World, str]) -> None:
    _, url = service
    name = f"taken_{builder.__name__}"
    with client(builder, url, DEVELOPER) as projects:
        projects.jobs().create(parent=PARENT, body=job(name)).execute()
        other = refused(projects.jobs().create(parent=PARENT, body=job(name, labels={"a": "b"})))
        assert (other.status_code, status(other)) == (409, "ALREADY_EXISTS")
        assert "already exists" in str(other.reason)

        wrong = job(f"{name}_2")
        wrong["trainingInput"] |= {"workerCount": "-1", "region": "nowhere"}
        bad = refused(projects.jobs().create(parent=PARENT, body=wrong))
        assert (bad.status_code, status(bad)) == (400, "INVALID_ARGUMENT")
        assert str(bad.reason).startswith("Field: training_input.")
        fields = {one["field"] for one in json.loads(bad.content)["error"]["details"][0]["fieldViolations"]}
        assert fields == {"training_input.worker_count", "training_input.region"}

        gone = refused(projects.jobs().get(name=f"{PARENT}/jobs/nobody"))
        assert (gone.status_code, status(gone)) == (404, "NOT_FOUND")
        elsewhere = refused(projects.jobs().list(parent="projects/other"))
        assert (elsewhere.status_code, status(elsewhere)) == (403, "PERMISSION_DENIED")
    with client(builder, url, VIEWER) as projects:
        denied = refused(projects.jobs().cancel(name=f"{PARENT}/jobs/{name}", body={}))
        assert (denied.status_code, status(denied)) == (403, "PERMISSION_DENIED")
        assert "ml.jobs.cancel" in str(denied.reason)
    with client(builder, url, None) as projects:
        unknown = refused(projects.jobs().list(parent=PARENT))
        assert (unknown.status_code, status(unknown)) == (401, "UNAUTHENTICATED")


def test_a_list_by_a_filter_that_is_too_long_for_an_address_is_the_same(service: tuple[World, str]) -> None:
    with client(from_public_form, service[1]) as projects:
        projects.jobs().create(parent=PARENT, body=job("long_filter")).execute()
        text = f"jobId=long_filter {'(state=QUEUED) ' * 120}"
        request = projects.jobs().list(parent=PARENT, filter=text, fields="jobs/jobId")
        # The client sends what is longer than 2048 characters as a POST.
        assert len(request.uri) > 2048
        assert request.execute() == {"jobs": [{"jobId": "long_filter"}]}
