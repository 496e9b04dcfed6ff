"""The cache for images of Docker Hub: a repository of the environment's own that fetches each of them once.

All machines of an environment leave its network by a few addresses, and Docker Hub counts pulls by address
(docker-hub-pull-limit): one job of many machines uses them up, and a node that is turned away waits for hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.environment.gke import node_account

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

_HUB = "docker.io/"
#: Docker Hub's namespace of images that are named without one, such as ``python:3.11``.
_OFFICIAL = "library/"


def plan_image_cache(spec: EnvironmentSpec) -> str | None:
    """Return the repository that the environment makes; None if it has none.

    It has one where its machines run as an account of its own, which may then read it, unless somebody says otherwise.
    """
    nodes = node_account(spec)
    wanted = nodes is not None and nodes.account_id is not None
    if spec.docker_hub_cache is not None:
        wanted = spec.docker_hub_cache
    return f"{spec.registry}-docker-hub" if wanted else None


def through_cache(image: str, spec: EnvironmentSpec) -> str:
    """Return the name by which machines pull an image; only images of Docker Hub get another one."""
    repository, path = plan_image_cache(spec), _path_in_hub(image)
    if repository is None or path is None:
        return image
    return f"{spec.region}-docker.pkg.dev/{spec.project}/{repository}/{path}"


def _path_in_hub(image: str) -> str | None:
    """Return an image's path in Docker Hub with its tag or digest, None for other registries.

    What stands before the first slash is a registry where it has a dot or a port, or is this machine.
    """
    path = image.removeprefix(_HUB)
    first, slash, _ = path.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return None
    return path if slash else f"{_OFFICIAL}{path}"
