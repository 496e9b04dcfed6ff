"""A Google account that pods of the environment's cluster act as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    import pulumi_kubernetes as k8s


def acted_as_by_pods(
    name: str,
    account: gcp.serviceaccount.Account,
    called: str,
    project: str,
    *,
    provider: k8s.Provider,
    opts: pulumi.ResourceOptions,
) -> None:
    """Let the Kubernetes account ``called``, in the namespace of the same name, act as a Google one.

    ``name`` is the binding's logical name, ``project`` the environment's, ``provider`` that of its cluster.
    """
    gcp.serviceaccount.IAMMember(
        name,
        service_account_id=account.name,
        role="roles/iam.workloadIdentityUser",
        member=f"serviceAccount:{project}.svc.id.goog[{called}/{called}]",
        # The identity pool that it is a member of comes with the first cluster.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[provider])),
    )
