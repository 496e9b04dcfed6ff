"""Resources of an environment that cost money or stand in the way of making them again."""

from __future__ import annotations

from encamp.kinds.model import GoogleKind

_NETWORK = "roles/compute.networkAdmin"

NETWORK = GoogleKind(
    "gcp:compute/network:Network",
    "network",
    _NETWORK,
    create=("compute.networks.create", "compute.networks.updatePolicy"),
    delete=("compute.networks.delete",),
    import_id="projects/{project}/global/networks/{name}",
)
SUBNETWORK = GoogleKind(
    "gcp:compute/subnetwork:Subnetwork",
    "subnetwork",
    _NETWORK,
    create=("compute.subnetworks.create", "compute.subnetworks.use"),
    delete=("compute.subnetworks.delete",),
    import_id="projects/{project}/regions/{region}/subnetworks/{name}",
)
ROUTER = GoogleKind(
    "gcp:compute/router:Router",
    "router",
    _NETWORK,
    create=("compute.routers.create",),
    delete=("compute.routers.delete",),
    import_id="projects/{project}/regions/{region}/routers/{name}",
)
#: Part of its router.
ROUTER_NAT = GoogleKind(
    "gcp:compute/routerNat:RouterNat",
    "NAT",
    _NETWORK,
    create=("compute.routers.update",),
    delete=("compute.routers.update",),
    import_id="{project}/{region}/{router}/{name}",
)
CLUSTER = GoogleKind(
    "gcp:container/cluster:Cluster",
    "cluster",
    "roles/container.admin",
    create=("container.clusters.create", "container.clusters.get", "container.clusters.update"),
    delete=("container.clusters.delete",),
    import_id="projects/{project}/locations/{location}/clusters/{name}",
    resumes=True,
)
REPOSITORY = GoogleKind(
    "gcp:artifactregistry/repository:Repository",
    "repository",
    "roles/artifactregistry.admin",
    create=("artifactregistry.repositories.create", "artifactregistry.repositories.get"),
    delete=("artifactregistry.repositories.delete",),
    import_id="projects/{project}/locations/{location}/repositories/{repositoryId}",
)

ENVIRONMENT_RESOURCES = (NETWORK, SUBNETWORK, ROUTER, ROUTER_NAT, CLUSTER, REPOSITORY)
