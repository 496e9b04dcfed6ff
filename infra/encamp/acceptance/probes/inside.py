"""Probes from inside pods: metadata server, tokens, names of other replicas, devices."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.probe import of_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.acceptance.cases import JobCase

_OK, _FORBIDDEN = 200, 403
_LONGEST_TOKEN_SECONDS: Final = 3600
_EMAIL: Final = "instance/service-accounts/default/email"
_CLUSTER: Final = ("instance/attributes/cluster-name", "instance/attributes/cluster-location")
_ZONE: Final = "instance/zone"
_PROJECT: Final = "project/project-id"
_GPU: Final = "nvidia.com/gpu"


def _every(case: JobCase, look: Callable[[Mapping[str, Any]], str]) -> str:
    """Look at what each replica says; gives what was seen of each."""
    return "; ".join(f"{replica}: {look(said)}" for replica, said in case.inside())


def _value(said: Mapping[str, Any], path: str) -> str:
    """Return a value of the metadata server.

    Raises:
        BrokenBeliefError: it did not give one.
    """
    answer = said["metadata"][path]
    expect(answer["status"] == _OK, f"{path} is answered with {answer['status']} {answer['text']}")
    return str(answer["text"]).strip()


@of_job("metadata-wants-its-header")
def wants_its_header(case: JobCase) -> str:
    """Ask without Metadata-Flavor."""

    def look(said: Mapping[str, Any]) -> str:
        expect(said["without flavor"] == _FORBIDDEN, f"without its header the answer is {said['without flavor']}")
        return str(_FORBIDDEN)

    return _every(case, look)


@of_job("metadata-says-who-the-pod-is")
def says_who_the_pod_is(case: JobCase) -> str:
    """Compare the e-mail of the default account with the plan's identity."""
    account = case.plan.identity.service_account
    wanted = account or f"{case.plan.project}.svc.id.goog"

    def look(said: Mapping[str, Any]) -> str:
        found = _value(said, _EMAIL)
        expect(found == wanted, f"the account is {found}, believed {wanted}")
        return found

    return _every(case, look)


@of_job("metadata-gives-tokens")
def gives_tokens(case: JobCase) -> str:
    """Look at the kind of a token and at its end."""

    def look(said: Mapping[str, Any]) -> str:
        answer = said["token"]
        expect(answer["status"] == _OK, f"a token is answered with {answer['status']} {answer['text']}")
        token = json.loads(answer["text"])
        saw = f"{token['token_type']} for {token['expires_in']} s"
        expect(token["token_type"] == "Bearer" and 0 < token["expires_in"] <= _LONGEST_TOKEN_SECONDS, saw)  # noqa: S105
        return saw

    return _every(case, look)


@of_job("metadata-names-the-cluster")
def names_the_cluster(case: JobCase) -> str:
    """Compare the cluster's attributes with the environment's."""
    wanted = (case.outputs.cluster, case.outputs.location)

    def look(said: Mapping[str, Any]) -> str:
        found = tuple(_value(said, path) for path in _CLUSTER)
        expect(found == wanted, f"the cluster is {found}, believed {wanted}")
        return " in ".join(found)

    return _every(case, look)


@of_job("metadata-names-the-zone")
def names_the_zone(case: JobCase) -> str:
    """Look at the form of the zone."""
    form = re.compile(rf"projects/\d+/zones/{re.escape(case.outputs.location)}-[a-z]")

    def look(said: Mapping[str, Any]) -> str:
        found = _value(said, _ZONE)
        expect(form.fullmatch(found), f"the zone is {found}")
        return found

    return _every(case, look)


@of_job("metadata-names-the-project")
def names_the_project(case: JobCase) -> str:
    """Compare the project's id."""

    def look(said: Mapping[str, Any]) -> str:
        found = _value(said, _PROJECT)
        expect(found == case.plan.project, f"the project is {found}, believed {case.plan.project}")
        return found

    return _every(case, look)


@of_job("pod-finds-its-peers", "cpu")
def finds_its_peers(case: JobCase) -> str:
    """Look at what every name of TF_CONFIG leads to."""

    def look(said: Mapping[str, Any]) -> str:
        peers: Mapping[str, str] = said["peers"]
        lost = {name: found for name, found in peers.items() if found.startswith("error")}
        expect(peers and not lost, f"names that lead nowhere: {lost or 'TF_CONFIG has none'}")
        return ", ".join(f"{name} is {found}" for name, found in peers.items())

    return _every(case, look)


@of_job("pod-sees-its-gpus", "l4")
def sees_its_gpus(case: JobCase) -> str:
    """Look for the device and the driver's tools; the sandbox says what it simulates."""

    def look(said: Mapping[str, Any]) -> str:
        if said["accelerators"]:
            found = json.loads(said["accelerators"]).get(_GPU)
            expect(found == 1, f"{found} GPUs are simulated, 1 is asked for")
            return "1 GPU, simulated"
        devices, tool = said["GPUs"], said["nvidia-smi"]
        expect(len(devices) == 1 and tool, f"devices {devices}, nvidia-smi {tool or 'not there'}")
        return f"{devices[0]}, {tool}"

    if case.plan.node_pools[0].accelerator is None:
        raise NotAskedError("the job has no GPU")
    return _every(case, look)
