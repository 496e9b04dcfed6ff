"""Every collection and every rule of the REST APIs, each by an example of it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.desk import PROJECT
from tests.sandbox.cloud.examples import EXAMPLES, Example

from encamp.beliefs.table import beliefs
from encamp_sandbox import cloud as cloud_package
from encamp_sandbox.cloud.services.all import all_apis
from encamp_sandbox.cloud.services.storage.buckets import RULES as BUCKET_RULES
from encamp_sandbox.cloud.tokens import KeyFile, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox.cloud.desk import Desk

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.layout import Layout

pytestmark = pytest.mark.slow

by_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
of_every_rule = pytest.mark.parametrize(
    ("example", "belief"),
    [(one, broken.belief) for one in EXAMPLES.values() for broken in one.broken],
    ids=[f"{one.collection}-{broken.belief}" for one in EXAMPLES.values() for broken in one.broken],
)
#: Rules that a create meets before those of its collection.
BESIDE = {"iam:serviceAccounts": {"iam-account-ids"}}
#: Rules that an example alone cannot break; other tests do.
ELSEWHERE = {"iam-100-accounts-a-project"}


def test_every_rule_of_every_collection_has_an_example(cloud: Cloud, layout: Layout) -> None:
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    rules = {"storage:b": {rule.belief for rule in BUCKET_RULES}}
    for api in all_apis(cloud, tokens):
        for one in api.collections:
            name = f"{api.name}:{one.path.rpartition('/')[2]}"
            rules[name] = {rule.belief for rule in one.rules} - ELSEWHERE | BESIDE.get(name, set())
    assert {name: {one.belief for one in example.broken} for name, example in EXAMPLES.items()} == rules


def test_every_refusal_names_a_belief_of_the_table() -> None:
    """Ids are literals: first arguments of rules, and the argument ``belief`` of refusals."""
    named = {name for path in Path(cloud_package.__path__[0]).rglob("*.py") for name in _named(path)}
    assert len(named) > 100
    assert named - set(beliefs()) == set()


def _named(path: Path) -> Iterator[str]:
    makers = {"Rule", "pattern", "name_pattern", "choice"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "belief"]
            if isinstance(node.func, ast.Name) and node.func.id in makers:
                given += node.args[:1]
            yield from (str(one.value) for one in given if isinstance(one, ast.Constant) and one.value)


@of_every_rule
def test_what_breaks_a_rule_is_refused_for_it(desk: Desk, example: Example, belief: str) -> None:
    example.furnish(desk)
    broken = next(one for one in example.broken if one.belief == belief)
    for collection, change in broken.before.items():
        assert EXAMPLES[collection].create(desk, change).status == 200
    answer = example.create(desk, broken.change)
    assert answer.status in (400, 403, 404)
    assert broken.message in answer.message
    assert answer.belief == belief


@by_example
def test_a_good_resource_is_made_and_made_once(desk: Desk, example: Example) -> None:
    example.furnish(desk)
    assert example.create(desk).status == 200
    again = example.create(desk)
    if example.named_by_server:
        assert again.status == 200
    elif example.collection == "container:clusters":
        assert (again.status, again.belief) == (409, "api-duplicate-is-409")
    else:
        assert again.status == 409, again.body


@by_example
def test_what_a_resource_needs_has_to_stand_before_it(desk: Desk, example: Example) -> None:
    answer = example.create(desk)
    assert (answer.status == 200) is not bool(example.needs)
    if example.needs:
        assert (answer.status, answer.belief) == (404, "api-missing-is-404")


@by_example
def test_a_resource_is_shown_listed_and_deleted(desk: Desk, example: Example) -> None:
    example.furnish(desk)
    made = example.create(desk).body
    path = f"{example.at}/{made['name'].rpartition('/')[2]}" if example.named_by_server else example.path
    shown = desk.do("GET", path)
    listed = desk.do("GET", example.at, query={"project": "sandbox-encamp"})
    assert shown in next(value for value in listed.values() if isinstance(value, list))
    for collection in example.held:
        refused = desk.refused("DELETE", EXAMPLES[collection].path)
        assert (refused.status, refused.belief) == (400, "compute-in-use-stays")
        assert "already being used by" in refused.message
    deleted = desk.ask("DELETE", path)
    assert (deleted.status < 300) is (not example.stays or example.collection == "iam:roles")
    assert desk.ask("GET", path).status == (200 if example.stays else 404)


@by_example
def test_nobody_without_a_role_is_answered(desk: Desk, example: Example) -> None:
    token = desk.do("POST", "encamp/v1/memberTokens", {"member": "user:ana@example.com"})["accessToken"]
    for method, body in (("GET", None), ("POST", dict(example.data["good"]))):
        answer = desk.ask(method, example.at, body, query=example.data.get("query"), token=token)
        assert (answer.status, answer.reason) == (403, "forbidden"), (method, answer.body)


def test_every_project_but_its_own_is_refused(desk: Desk) -> None:
    for example in EXAMPLES.values():
        path = example.at.replace(PROJECT, "projects/real-one")
        if path != example.at:
            answer = desk.refused("POST", path, {})
            assert (answer.status, answer.reason) == (403, "forbidden")
            assert "serves the project sandbox-encamp only" in answer.message
    assert desk.refused("POST", "storage/v1/b", {"name": "b-1"}, query={"project": "real-one"}).status == 403
