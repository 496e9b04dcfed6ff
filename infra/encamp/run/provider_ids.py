"""Ids by which the ``gcp`` provider reads resources whose create had no answer.

Source: the import sections of the provider's documentation, https://www.pulumi.com/registry/packages/gcp/api-docs/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from encamp.run.stack_state import Unanswered

#: By type token: what costs money, and what stands in the way of making it again.
_IDS: Final = {
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
    "gcp:compute/router:Router": "projects/{project}/regions/{region}/routers/{name}",
    "gcp:compute/routerNat:RouterNat": "{project}/{region}/{router}/{name}",
    "gcp:container/cluster:Cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "gcp:container/nodePool:NodePool": "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    "gcp:storage/bucket:Bucket": "{name}",
    "gcp:serviceaccount/account:Account": (
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com"
    ),
    "gcp:artifactregistry/repository:Repository": "projects/{project}/locations/{location}/repositories/{repositoryId}",
}


def provider_id(create: Unanswered, project: str) -> str | None:
    """Return the id of what a create asked for; None if its type is not in the table or its inputs do not say it."""
    form = _IDS.get(create.type)
    named = {key: str(value).rpartition("/")[2] for key, value in create.inputs.items() if isinstance(value, str)}
    try:
        return form.format(**{"project": project, **named}) if form is not None else None
    except KeyError:
        return None
