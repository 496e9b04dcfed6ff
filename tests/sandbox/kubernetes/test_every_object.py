"""Every object that encamp makes, given to our provider and to the one under contract: both say the same of it."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.job_cases import planned_cases
from tests.plan.planned import plan_case

from encamp.plan.environment.charts import JOBSET, KUEUE, read_chart
from encamp_sandbox.provider import UNKNOWN, Secret, messages
from encamp_sandbox.provider.values import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sandbox

TESTS = Path(__file__).parents[2]
DEFINITION, NAMESPACE = "CustomResourceDefinition", "Namespace"
#: What acts on the cluster as soon as it is there, or what it would take a definition to make.
TRIED_ONLY = (DEFINITION, "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
CUSTOM = ("x-k8s.io", "encamp")
LABELS = ("labels", "annotations", "matchLabels")
SECONDS = 400


def objects() -> list[dict[str, Any]]:
    """One object of each form: of every job case and environment, and of the charts."""
    found: dict[str, dict[str, Any]] = {}
    for one in _all():
        found.setdefault(json.dumps(_form(one), sort_keys=True), one)
    return list(found.values())


def _all() -> Iterator[dict[str, Any]]:
    for case in planned_cases().values():
        yield from plan_case(case).manifests
    for file in sorted((TESTS / "components" / "golden").glob("*.yaml")):
        for name, one in yaml.safe_load(file.read_text()).items():
            if name.startswith("kubernetes:") and "kind" in one:
                yield one
    for chart in (JOBSET, KUEUE):
        yield from read_chart(chart)["objects"]


def _form(value: Any) -> Any:
    """What two objects have in common that differ in names and numbers only."""
    match value:
        case dict():
            return {key: item if key == "kind" else _form(item) for key, item in value.items() if key not in LABELS}
        case list():
            return [_form(item) for item in value]
    return type(value).__name__


def _given(one: dict[str, Any], namespace: str) -> tuple[str, dict[str, Any]]:
    """An object's type token and its inputs, in a namespace of the test's own; nobody waits until it is ready."""
    inputs = copy.deepcopy(one)
    about = inputs["metadata"]
    if about.get("namespace"):
        about["namespace"] = namespace
    if one["kind"] != NAMESPACE:
        about["annotations"] = {**about.get("annotations", {}), "pulumi.com/skipAwait": "true"}
    if one["kind"] == "ConfigMap" and "data" in one:
        # Goldens show JSON within data as data.
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in inputs["data"].items()}
        inputs["data"] = texts
    version = one["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{one['kind']}", inputs


def _plain(value: Any) -> Any:
    match value:
        case Secret():
            return {"secret": _plain(value.value)}
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
    return "unknown" if value is UNKNOWN else value


def _lasting(state: dict[str, Any]) -> dict[str, Any]:
    """A state without what no two objects have in common, and what controllers write when they come to it."""
    shown: dict[str, Any] = _plain(state)
    for key in ("status", "__fieldManager"):
        shown.pop(key, None)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        shown["metadata"].pop(key, None)
    shown["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    if shown["kind"] == "Service":
        for key in ("clusterIP", "clusterIPs"):
            shown["spec"].pop(key, None)
    return shown


async def _account(engine: Any, token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """What a provider says of an object: checked, tried, made, compared, read, compared again, deleted."""
    account: dict[str, Any] = {"checked": _lasting(await engine.check(token, "n", inputs))}
    _, state = await engine.create(token, "n", inputs, preview=True)
    account["tried"] = _lasting(state["outputs"])
    if inputs["kind"] in TRIED_ONLY or any(part in inputs["apiVersion"] for part in CUSTOM):
        return account
    resource_id, state = await engine.create(token, "n", inputs)
    try:
        account |= {"id": resource_id, "made": _lasting(state["outputs"])}
        account["changes"] = await _changes(engine, token, state, inputs)
        read = await engine.read(token, "n", resource_id, state)
        state = {"inputs": decode(read.inputs), "outputs": decode(read.properties)}
        account |= {"read": _lasting(state["outputs"]), "inputs": _plain(state["inputs"])}
        account["changes after a refresh"] = await _changes(engine, token, state, inputs)
    finally:
        await engine.delete(token, "n", resource_id, state)
    return account


async def _changes(engine: Any, token: str, state: dict[str, Any], inputs: dict[str, Any]) -> list[str]:
    answer = await engine.diff(token, "n", state, inputs)
    none = answer.changes == messages.provider_pb2.DiffResponse.DIFF_NONE
    return [] if none else ["some", *sorted(answer.detailedDiff)]


def test_both_say_the_same_and_nothing_changes_by_itself(
    cluster: Any, namespace: str, ours: Callable[..., Any], provider: Callable[..., Any]
) -> None:
    async def work() -> None:
        every = objects()
        assert len(every) > 80
        async with ours(kubeconfig=cluster.kubeconfig) as our, provider(kubeconfig=cluster.kubeconfig) as theirs:
            for one in every:
                account = await _account(our, *_given(one, f"{namespace}-a"))
                other = await _account(theirs, *_given(one, f"{namespace}-b"))
                assert json.loads(json.dumps(other).replace(f"{namespace}-b", f"{namespace}-a")) == account
                assert not account.get("changes"), one
                assert not account.get("changes after a refresh"), one

    for end in "ab":
        cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": f"{namespace}-{end}"}})
    asyncio.run(asyncio.wait_for(work(), SECONDS))


EDITS: dict[str, dict[str, Any]] = {
    "other values": {"labels": {"a-b": "2", "c.d/e": "2"}, "spec": {"n": 2, "text": "b"}},
    "more": {"labels": {"a-b": "1", "c.d/e": "1", "new-one": "1"}, "spec": {"n": 1, "text": "a", "more": {"x": 1}}},
    "less": {"labels": {"a-b": "1"}, "spec": {"n": 1}},
    "longer lists": {"spec": {"list": [{"x": 1}, {"x": 2}, {"x": 3}], "texts": ["a", "b", "c"]}},
    "shorter lists": {"spec": {"list": [{"x": 1}], "texts": ["a"]}},
    "changes within lists": {"spec": {"list": [{"x": 5}, {"y": 2}], "texts": ["a", "c"]}},
    "other types": {"spec": {"n": "1", "text": {"a": 1}, "list": "x"}},
    "another name": {"name": "other", "spec": {}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_both_name_the_same_changes(
    edit: dict[str, Any], cluster: Any, namespace: str, ours: Callable[..., Any], provider: Callable[..., Any]
) -> None:
    """In the same words, and by the same values: those of the live object, or of the inputs."""
    token = "kubernetes:example.com/v1:Widget"  # noqa: S105 - a type, no password

    def widget(name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
        about = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": about, "spec": spec}

    async def changes(engine: Any, state: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
        answer = await engine.diff(token, "w", state, news)
        found = {path: (change.kind, change.inputDiff) for path, change in answer.detailedDiff.items()}
        return {"changes": found, "replaces": list(answer.replaces), "first": answer.deleteBeforeReplace}

    async def work() -> None:
        labels = {"a-b": "1", "c.d/e": "1"}
        old = widget("w", labels, {"n": 1, "text": "a", "list": [{"x": 1}, {"x": 2}], "texts": ["a", "b"]})
        new = widget(edit.get("name", "w"), edit.get("labels", labels), {**old["spec"], **edit["spec"]})
        if edit is EDITS["less"]:
            new["spec"] = edit["spec"]
        async with ours(kubeconfig=cluster.kubeconfig) as our, provider(kubeconfig=cluster.kubeconfig) as theirs:
            _, state = await our.create(token, "w", old)
            found = await changes(our, state, new)
            assert found["changes"]
            assert await changes(theirs, state, new) == found

    asyncio.run(asyncio.wait_for(work(), SECONDS))


def test_a_stack_may_go_from_one_to_the_other(
    cluster: Any, namespace: str, ours: Callable[..., Any], provider: Callable[..., Any]
) -> None:
    """Also a ConfigMap, which any difference would replace."""

    async def work() -> None:
        token, about = "kubernetes:core/v1:ConfigMap", {"name": "c", "namespace": namespace}
        inputs = {"metadata": about, "data": {"a": "1"}}
        changed = {"metadata": {**about, "labels": {"l": "1"}}, "data": {"a": "1"}}
        async with ours(kubeconfig=cluster.kubeconfig) as our, provider(kubeconfig=cluster.kubeconfig) as theirs:
            for before, after in ((our, theirs), (theirs, our)):
                resource_id, state = await before.create(token, "c", inputs)
                assert await _changes(after, token, state, inputs) == []
                assert (await after.diff(token, "c", state, changed)).replaces == []
                state = await after.update(token, "c", state, changed)
                assert await _changes(before, token, state, changed) == []
                await before.delete(token, "c", resource_id, state)

    asyncio.run(asyncio.wait_for(work(), SECONDS))


def test_secrets_are_secret_wherever_a_state_holds_them(
    cluster: Any, namespace: str, provider: Callable[..., Any]
) -> None:
    async def work() -> None:
        async with provider(kubeconfig=cluster.kubeconfig) as engine:
            inputs = {"metadata": {"name": "c", "namespace": namespace}, "data": {"open": "1", "p": Secret("hidden")}}
            _, state = await engine.create("kubernetes:core/v1:ConfigMap", "c", inputs)
            assert "hidden" not in repr(state)
            assert "hidden" in json.dumps(_plain(state))

    asyncio.run(asyncio.wait_for(work(), SECONDS))
