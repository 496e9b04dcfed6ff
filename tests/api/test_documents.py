"""What the service says of itself: to old clients, to programs, and to people."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import googleapiclient
import pytest
import yaml
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build_from_document
from jsonschema import Draft202012Validator
from tests.job_cases import golden_cases, table_cases

from encamp.api import page
from encamp.api.discovery import discovery_document, resource_parameter
from encamp.api.documents import DISCOVERY, OPENAPI, PAGE, Document, document, root_of
from encamp.api.errors import ApiError, wrong_fields
from encamp.api.methods import METHODS
from encamp.api.openapi import openapi_document
from encamp.api.schemas import OWN, schemas
from encamp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.api.methods import Method

ROOT = "http://127.0.0.1:8080/"
#: Jobs that are right, in the form that requests have: packages of somebody's machine are none of a request.
CASES = {
    name: case
    for name, case in (golden_cases() | table_cases()).items()
    if "trainingInput:" in case.text and "packagePath:" not in case.text
}
_XHTML = "{http://www.w3.org/1999/xhtml}"
#: Where the public document has something else: (schema, field) or (schema, field, what of it).
NOT_SERVED = {
    ("GoogleCloudMlV1__GetConfigResponse", "config"),
    ("GoogleCloudMlV1__HyperparameterOutput", "allMetrics"),
    ("GoogleCloudMlV1__HyperparameterOutput", "builtInAlgorithmOutput"),
    ("GoogleCloudMlV1__HyperparameterOutput", "webAccessUris"),
    ("GoogleCloudMlV1__Job", "predictionInput"),
    ("GoogleCloudMlV1__Job", "predictionOutput"),
    ("GoogleCloudMlV1__TrainingOutput", "builtInAlgorithmOutput"),
    ("GoogleCloudMlV1__TrainingOutput", "consumedMLUnits"),
    ("GoogleCloudMlV1__TrainingOutput", "webAccessUris"),
    ("GoogleIamV1__Binding", "condition"),
    ("GoogleIamV1__Policy", "auditConfigs"),
}
NOT_PUBLIC = {
    ("GoogleCloudMlV1__Job", "encamp"),
    ("GoogleCloudMlV1__Scheduling", "resilientToWorkerRestart"),
    ("GoogleCloudMlV1__Scheduling", "strategy"),
}
OTHER_CHOICES = {
    ("GoogleCloudMlV1__Capability", "type", "enum"),
    ("GoogleCloudMlV1__DiskConfig", "bootDiskType", "enum"),
    ("GoogleCloudMlV1__HyperparameterSpec", "algorithm", "enum"),
}


@cache
def public() -> dict[str, Any]:
    """The document of ml v1 that comes with Google's own client."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    return json.loads((folder / "ml.v1.json").read_text())


def every(data: Any, key: str) -> Iterator[Any]:
    """All values of a key, wherever it stands."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name == key:
                yield value
            yield from every(value, key)
    elif isinstance(data, list):
        for value in data:
            yield from every(value, key)


def method_of(found: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """A method in a discovery document."""
    *path, name = method.id.split(".")
    for part in path:
        found = found["resources"][part]
    return found["methods"][name]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_a_method_has_the_public_form(method: Method) -> None:
    ours, theirs = method_of(discovery_document(ROOT), method), method_of(public(), method)
    for key in ("id", "httpMethod", "path", "flatPath", "parameterOrder", "request", "response"):
        assert ours.get(key) == theirs.get(key), key
    assert ours["parameters"].keys() == theirs["parameters"].keys()
    for name, one in ours["parameters"].items():
        for key in ("type", "location", "required", "pattern", "format"):
            assert one.get(key) == theirs["parameters"][name].get(key), (name, key)


def test_schemas_have_the_public_form() -> None:
    ours, theirs = discovery_document(ROOT)["schemas"], public()["schemas"]
    own = {f"Encamp__{name}" for name in OWN if "properties" in schemas()[name]}
    assert ours.keys() - theirs.keys() == own
    missing, more, other = set(), set(), set()
    for name in ours.keys() - own:
        here, there = ours[name]["properties"], theirs[name].get("properties", {})
        missing |= {(name, key) for key in there.keys() - here.keys()}
        more |= {(name, key) for key in here.keys() - there.keys()}
        other |= {
            (name, key, what)
            for key in here.keys() & there.keys()
            for what in ("type", "format", "$ref", "enum")
            if here[key].get(what) != there[key].get(what)
        }
    assert (missing, more, other) == (NOT_SERVED, NOT_PUBLIC, OTHER_CHOICES)


def test_a_discovery_document_is_whole_and_in_words_of_its_own() -> None:
    ours = discovery_document(ROOT)
    assert {one["id"] for one in ours["schemas"].values()} == set(ours["schemas"])
    assert set(every(ours, "$ref")) <= set(ours["schemas"])
    assert all(isinstance(one, str) for one in every(ours["schemas"], "default"))
    texts = {one for one in every(public(), "description") if isinstance(one, str) and len(one.split()) > 3}
    assert not texts & {one for one in every(ours, "description") if isinstance(one, str)}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_googles_client_asks_for_what_is_served(method: Method) -> None:
    client = build_from_document(discovery_document(ROOT), credentials=AnonymousCredentials())
    values = {"project": "p-1", "job": "census", "location": "us-central1"}
    *path, name = method.id.split(".")
    for part in path:
        client = getattr(client, part)()
    where = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], method.path)
    resource = where.removeprefix("v1/").partition(":")[0]
    if resource_parameter(method) == "parent":
        resource = resource.rpartition("/")[0]
    body: dict[str, Any] = {"body": {}} if method.request else {}
    request = getattr(client, name)(**{resource_parameter(method): resource}, **body)
    assert (request.method, request.uri) == (method.verb, f"{ROOT}{where}?alt=json")


@pytest.mark.slow
def test_an_openapi_document_is_one_and_has_every_method() -> None:
    import schemathesis  # noqa: PLC0415 - it takes a second
    from schemathesis.core.result import Ok  # noqa: PLC0415

    found = openapi_document()
    read = schemathesis.openapi.from_dict(found)
    read.validate()
    labels = [found.ok().label if isinstance(found, Ok) else found for found in read.get_all_operations()]
    assert labels == [f"{method.verb} /{method.path}" for method in METHODS]
    for schema in found["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    kinds = found["components"]
    for target in every(found, "$ref"):
        _, _, kind, name = target.split("/")
        assert name in kinds[kind], target


def valid(name: str, data: Any) -> list[str]:
    """What the OpenAPI document finds wrong about something."""
    components = openapi_document()["components"]
    whole = {"$ref": f"#/components/schemas/{name}", "components": components}
    return [error.message for error in Draft202012Validator(whole).iter_errors(data)]


@pytest.mark.parametrize("case", CASES)
def test_jobs_of_the_usual_form_are_jobs_of_the_document(case: str) -> None:
    job = yaml.safe_load(CASES[case].text)
    assert valid("Job", job) == []


def test_a_refusal_is_an_error_of_the_document() -> None:
    body = wrong_fields([Problem("trainingInput.workerCount", None, "V03", "must not be negative")]).body()
    assert valid("Error", body) == []
    assert valid("Error", {"error": body["error"] | {"status": "NOPE"}}) != []


@cache
def shown() -> ET.Element:
    found = document(PAGE, version=None, root=ROOT)
    assert found is not None
    return ET.fromstring(found.body)  # noqa: S314 - made here


def test_a_page_for_people_has_everything_and_loads_nothing() -> None:
    names = {one.get("id") for one in shown().iter()} - {None}
    assert names >= {method.id for method in METHODS} | set(schemas()) | {"Error"}
    links = {one.get("href", "") for one in shown().iter(f"{_XHTML}a")}
    assert {link[1:] for link in links if link.startswith("#")} <= names
    assert {link for link in links if not link.startswith("#")} == {"openapi.json", "$discovery/rest?version=v1"}
    for one in shown().iter():
        assert one.tag.removeprefix(_XHTML) not in {"script", "link", "img", "iframe", "object", "form"}
        assert not {key for key in one.attrib if key.startswith("on") or key in {"src", "style", "action"}}
    text = " ".join(shown().itertext())
    for method in METHODS:
        assert method.description in text
        assert f"/{method.path}" in text


def test_nothing_in_a_document_is_mark_up_of_the_page() -> None:
    bad = "<script>alert(1)</script>\"'&"
    hostile = json.loads(json.dumps(openapi_document()).replace("Creates a training job.", json.dumps(bad)[1:-1]))
    hostile["components"]["schemas"]["Binding"]["properties"][bad] = {
        "type": "string",
        "description": bad,
        "enum": [bad],
    }
    hostile["components"]["schemas"][bad] = {"type": "object", "description": bad}
    html = page.page(hostile)
    assert "<script" not in html
    assert bad in " ".join(ET.fromstring(html).itertext())  # noqa: S314 - made here


def test_documents_are_made_once() -> None:
    for path in (PAGE, OPENAPI, DISCOVERY):
        first, again = (document(path, version="v1", root=ROOT) for _ in range(2))
        assert isinstance(first, Document)
        assert first is again
        assert first.headers["X-Content-Type-Options"] == "nosniff"
    for number in range(100):
        other = document(DISCOVERY, version="v1", root=f"http://h{number}/")
        assert other is not None
        assert json.loads(other.body)["rootUrl"] == f"http://h{number}/"
    assert document("/v1/projects", version="v1", root=ROOT) is None


@pytest.mark.parametrize("version", [None, "", "v2", "v1beta1"])
def test_there_is_one_version(version: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        document(DISCOVERY, version=version, root=ROOT)
    assert caught.value.status == "NOT_FOUND"


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:8080", "jobs.example.com", "a-b.example:443"])
def test_a_service_is_where_it_was_asked(host: str) -> None:
    assert root_of("https", host) == f"https://{host}/"


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "a b",
        "a/b",
        "a@b",
        "a:b",
        "a:123456",
        'a"b',
        "<a>",
        "a\nb",
        "[::1",
        "-a",
        "a?b",
        "a#b",
        "ä",
        "a" * 300,
    ],
)
def test_what_names_no_host_is_in_no_document(host: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        root_of("https", host)
    assert caught.value.status == "INVALID_ARGUMENT"
