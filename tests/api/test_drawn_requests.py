"""Requests that schemathesis draws from the OpenAPI document: right ones, wrong ones, and those between.

What is drawn alone would seldom get past the first check. So a part of it is put into a request that is right: an
existing job's id, a token, a Job that may be created. ``ENCAMP_DRAWN=N`` draws N of each kind for each method.
"""

from __future__ import annotations

import itertools
import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from tests.api.world import ADMIN, DEVELOPER, PROJECT, VIEWER, World, job, served, world

from encamp.api.methods import METHODS
from encamp.api.openapi import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.api.methods import Method

pytestmark = pytest.mark.slow
DRAWN = int(os.environ.get("ENCAMP_DRAWN", "6"))
KNOWN = ("known_1", "known_2")


@cache
def operations() -> dict[str, Any]:
    """Methods as schemathesis knows them, by verb and path."""
    found = schemathesis.openapi.from_dict(openapi_document()).get_all_operations()
    return {one.ok().label: one.ok() for one in found if isinstance(one, Ok)}


@cache
def validator(name: str) -> Draft202012Validator:
    whole = {"$ref": f"#/components/schemas/{name}", "components": openapi_document()["components"]}
    return Draft202012Validator(whole)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, httpx.Client]]:
    with (
        world(tmp_path_factory.mktemp("service")) as found,
        served(found.app) as url,
        httpx.Client(base_url=url) as http,
    ):
        for name in KNOWN:
            made = http.post(f"v1/projects/{PROJECT}/jobs", json=job(name), headers=bearer(ADMIN))
            assert made.status_code == 200, made.text
        yield found, http


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


#: Of each part of a request whether it is drawn, or one that is right.
PARTS = st.fixed_dictionaries(
    {
        "project": st.sampled_from([PROJECT, PROJECT, PROJECT, None]),
        "job": st.sampled_from([*KNOWN, None]),
        "location": st.sampled_from(["us-central1", None]),
        "token": st.sampled_from([ADMIN, ADMIN, DEVELOPER, VIEWER, None]),
        "body": st.sampled_from(["drawn", "within"]),
    }
)


def request_of(method: Method, case: Any, parts: dict[str, Any], unique: str) -> dict[str, Any]:
    """What httpx is told to send."""
    named = {name: parts[name] for name in case.path_parameters if parts.get(name) is not None}
    case.path_parameters = {**case.path_parameters, **named}
    drawn = case.as_transport_kwargs(base_url="http://base")
    token = bearer(parts["token"]) if parts["token"] is not None else {}
    headers = {key: value for key, value in (drawn.get("headers") or {}).items() if _is_sendable(key, value)}
    sent = {
        "method": method.verb,
        "url": drawn["url"].removeprefix("http://base"),
        "headers": {key: value for key, value in headers.items() if not token or key.lower() != "authorization"}
        | token,
        "params": drawn.get("params"),
    }
    if method.request is None:
        return sent
    body = drawn.get("json", drawn.get("data"))
    if method.request == "Job" and parts["body"] == "within":
        body = _within(job(f"drawn_{unique}"), body)
    return sent | {"content": body if isinstance(body, bytes) else json.dumps(body).encode()}


def _within(right: dict[str, Any], drawn: Any) -> dict[str, Any]:
    """A Job that may be created, but for two fields."""
    if not isinstance(drawn, dict):
        return right
    training = drawn.get("trainingInput")
    few = dict(sorted(training.items())[:2]) if isinstance(training, dict) else {}
    labels = {"labels": drawn["labels"]} if "labels" in drawn else {}
    return right | {"trainingInput": right["trainingInput"] | few} | labels


def _is_sendable(key: str, value: Any) -> bool:
    """Whether a client can send a header at all, and it says nothing of how the body comes."""
    text = f"{key}: {value}"
    framing = {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"}
    name = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return name and key.lower() not in framing and text.isascii() and text.isprintable() and text == text.strip()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_every_request_gets_an_answer_of_the_document(
    method: Method, mode: GenerationMode, service: tuple[World, httpx.Client]
) -> None:
    _, http = service
    operation = operations()[f"{method.verb} /{method.path}"]
    made = itertools.count()

    @settings(
        max_examples=DRAWN,
        deadline=None,
        database=None,
        derandomize="ENCAMP_DRAWN" not in os.environ,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), parts=PARTS)
    def ask(case: Any, parts: dict[str, Any]) -> None:
        check(method, http.request(**request_of(method, case, parts, f"{mode.name}_{next(made)}")))

    ask()


def check(method: Method, answer: httpx.Response) -> None:
    """The answer is one of the document."""
    assert answer.status_code < 500, answer.text
    documented = openapi_document()["paths"][f"/{method.path}"][method.verb.lower()]["responses"]
    assert str(answer.status_code) in documented, answer.text
    assert answer.headers["content-type"].startswith("application/json"), answer.text
    data = answer.json()
    name = method.response if answer.status_code == 200 else "Error"
    assert [error.message for error in validator(name).iter_errors(data)] == []
    if answer.status_code != 200:
        assert data["error"]["code"] == answer.status_code
