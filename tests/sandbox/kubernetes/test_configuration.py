"""What the provider decides without a cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.provider import UNKNOWN, Configuration, Resource

SERVER = "https://127.0.0.1:1"


def kubeconfig(server: str = SERVER, user: str = "t") -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "own"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": user}}],
        }
    )


@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        ({}, []),
        ({"enableServerSideApply": "true"}, []),
        ({"enableServerSideApply": "false"}, ["enableServerSideApply"]),
        ({"renderYamlToDirectory": "out"}, ["renderYamlToDirectory"]),
    ],
)
def test_what_is_not_served_is_refused(inputs: dict[str, Any], wrong: list[str]) -> None:
    result = asyncio.run(KubernetesProvider(None).check_config("urn", {}, inputs))
    assert [failure.property for failure in result.failures] == wrong


@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        (kubeconfig(), kubeconfig(user="u"), False),
        (kubeconfig(), kubeconfig("https://127.0.0.1:2"), True),
        (kubeconfig(), UNKNOWN, True),
    ],
)
def test_another_cluster_replaces_the_provider_and_another_token_does_not(old: str, new: Any, replaces: bool) -> None:
    result = asyncio.run(KubernetesProvider(None).diff_config("urn", {"kubeconfig": old}, {"kubeconfig": new}))
    assert result.changes
    assert bool(result.replaces) is replaces


@pytest.mark.parametrize(
    ("old", "new", "replaces"), [("c", "c", False), (None, "c", True), ("c", None, True), ("c", "d", True)]
)
def test_an_identifier_says_which_cluster_it_is_whatever_its_address(
    old: str | None, new: str | None, replaces: bool
) -> None:
    """As the official provider has it: only where both states name one."""
    before = {"kubeconfig": kubeconfig(), "clusterIdentifier": old}
    for moved in (kubeconfig("https://127.0.0.1:2"), UNKNOWN):
        now = {"kubeconfig": moved, "clusterIdentifier": new}
        result = asyncio.run(KubernetesProvider(None).diff_config("urn", before, now))
        assert result.changes
        assert bool(result.replaces) is replaces
    assert not asyncio.run(KubernetesProvider(None).diff_config("urn", before, {**before})).changes


def test_adding_an_identifier_replaces_nothing_and_another_one_everything() -> None:
    def replaced(old: str | None, new: str) -> bool:
        inputs = [{"kubeconfig": kubeconfig(), "clusterIdentifier": one} for one in (old, new)]
        return bool(asyncio.run(KubernetesProvider(None).diff_config("urn", *inputs)).replaces)

    assert not replaced(None, "c")
    assert replaced("c", "d")


@pytest.mark.parametrize(
    ("args", "namespace"), [({}, "own"), ({"namespace": "given"}, "given"), ({"kubeconfig": "/no/such"}, "default")]
)
def test_the_default_namespace_is_the_providers_then_the_contexts(args: dict[str, str], namespace: str) -> None:
    async def work() -> str:
        session = await KubernetesProvider(None).configure(Configuration({"kubeconfig": kubeconfig(), **args}))
        await session.close()
        return session.options.namespace

    assert asyncio.run(work()) == namespace


def test_flags_come_from_arguments_and_then_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    monkeypatch.setenv("PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "true")

    async def work() -> tuple[bool, bool]:
        args = {"kubeconfig": kubeconfig(), "upsertExistingObjects": "false"}
        session = await KubernetesProvider(None).configure(Configuration(args))
        await session.close()
        return session.options.delete_unreachable, session.options.upsert

    assert asyncio.run(work()) == (True, False)


@pytest.mark.parametrize(
    "token",
    [
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:yaml/v2:ConfigGroup",
        "kubernetes:kustomize/v2:Directory",
        "kubernetes:core/v1:ConfigMapPatch",
        "kubernetes:core/v1:PodList",
    ],
)
def test_types_that_are_not_served_are_refused(token: str) -> None:
    async def work() -> list[str]:
        session = await KubernetesProvider(None).configure(Configuration({"kubeconfig": kubeconfig()}))
        result = await session.check(Resource(token, "urn", "x"), {}, {}, seed=b"")
        await session.close()
        return [failure.reason for failure in result.failures]

    (reason,) = asyncio.run(work())
    assert "does not serve" in reason or "serves no" in reason


def test_a_type_and_its_object_agree() -> None:
    async def work() -> list[str]:
        session = await KubernetesProvider(None).configure(Configuration({"kubeconfig": kubeconfig()}))
        wrong = {"apiVersion": "v2", "kind": "Namespace"}
        resource = Resource("kubernetes:core/v1:Namespace", "urn", "x")
        result = await session.check(resource, {}, wrong, seed=b"")
        await session.close()
        return [failure.property for failure in result.failures]

    assert asyncio.run(work()) == ["apiVersion"]
