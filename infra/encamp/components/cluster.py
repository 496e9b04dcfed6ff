"""The environment's regional GKE cluster. Jobs bring pools of their own; one small pool runs what runs always."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.cloud.gke_kubeconfig import gke_kubeconfig
from encamp.components.pool_timeouts import pool_timeouts
from encamp.components.server_filled import SERVER_FILLED
from encamp.plan.environment.adoption import AUTOPILOT, NO_NAME, FoundCluster, cluster_problems
from encamp.plan.environment.model import SYSTEM_DISK, SYSTEM_DISK_GB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.components.network import Network
    from encamp.plan.environment.model import GkePlan, SystemPoolPlan
    from encamp.plan.model import EnvironmentPlan

_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


class Cluster(pulumi.ComponentResource):
    """A regional Standard cluster with Workload Identity, private nodes, Dataplane V2 and GCS FUSE.

    One that is adopted is read and looked at; what jobs cannot do without is refused before anything else is made.

    Args:
        network: None where the cluster is adopted.
        after: what must stand before: rights of its nodes and of its key.

    Attributes:
        cluster: the GKE cluster, its default pool removed.
        kubeconfig: a kubeconfig that asks ``gke-gcloud-auth-plugin`` for tokens, so it holds no secret and
            never changes between two previews.
        ready: what must stand before controllers can run in it.
    """

    def __init__(
        self,
        name: str,
        plan: EnvironmentPlan,
        network: Network | None,
        *,
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Cluster", name, {}, opts)
        self._plan = plan
        self.cluster = self._adopted(name) if network is None else self._made(name, network, after)
        self.ready: list[pulumi.Resource] = [self.cluster]
        if plan.gke.system_pool is not None:
            self.ready.append(self._system_pool(plan.gke.system_pool))
        self.kubeconfig = self._kubeconfig()
        self.register_outputs({})

    def _kubeconfig(self) -> pulumi.Output[str]:
        plan, cluster = self._plan, self.cluster
        by_name = cluster.control_plane_endpoints_config.apply(_dns_name)
        if plan.gke.dns_endpoint:
            return by_name.apply(lambda name: gke_kubeconfig(plan.cluster, _required(name, plan), None))
        # Public, but secret with all of master_auth: belief gke-client-key-makes-master-auth-secret.
        certificate = pulumi.Output.unsecret(cluster.master_auth).cluster_ca_certificate
        by_address = pulumi.Output.all(cluster.endpoint, certificate).apply(
            lambda given: gke_kubeconfig(plan.cluster, given[0], given[1])
        )
        if plan.gke.dns_endpoint is not None:
            return by_address
        return pulumi.Output.all(by_name, by_address).apply(
            lambda ways: gke_kubeconfig(plan.cluster, ways[0], None) if ways[0] else ways[1]
        )

    def _adopted(self, name: str) -> gcp.container.Cluster:
        plan = self._plan
        cluster = gcp.container.Cluster.get(name, plan.gke.full_name, opts=pulumi.ResourceOptions(parent=self))

        pulumi.Output.all(
            workload_pool=cluster.workload_identity_config.apply(lambda found: found.workload_pool if found else None),
            pods_range=cluster.ip_allocation_policy.apply(
                lambda found: found.cluster_secondary_range_name if found else None
            ),
            gcs_fuse=cluster.addons_config.apply(_has_gcs_fuse),
        ).apply(lambda found: _refuse(cluster_problems(FoundCluster(**found), plan), plan))
        # A preview knows nothing of what Google does not say, so this is asked by itself.
        cluster.enable_autopilot.apply(lambda on: _refuse([AUTOPILOT] if on else [], plan))
        return cluster

    def _made(self, name: str, network: Network, after: Sequence[pulumi.Resource]) -> gcp.container.Cluster:
        plan, gke = self._plan, self._plan.gke
        return gcp.container.Cluster(
            name,
            name=plan.cluster,
            location=plan.region,
            # An empty list would differ at every preview (belief gke-empty-node-locations-differ).
            node_locations=list(plan.zones) or None,
            network=network.network,
            subnetwork=network.subnetwork,
            networking_mode="VPC_NATIVE",
            ip_allocation_policy={
                "cluster_secondary_range_name": plan.vpc.pods_range,
                "services_secondary_range_name": plan.vpc.services_range,
            },
            # Network policies between the replicas of jobs are enforced by it.
            datapath_provider="ADVANCED_DATAPATH",
            # GKE makes no cluster without a first pool; it is removed as soon as the cluster stands.
            initial_node_count=1,
            remove_default_node_pool=True,
            node_config=_first_pool(plan),
            private_cluster_config=_endpoint(gke),
            control_plane_endpoints_config=_by_name(gke),
            master_authorized_networks_config=_authorized(gke),
            workload_identity_config={"workload_pool": gke.workload_pool},
            enable_shielded_nodes=True,
            release_channel={"channel": gke.release_channel},
            maintenance_policy=_maintenance(gke),
            addons_config={
                "gcs_fuse_csi_driver_config": {"enabled": True},
                "gce_persistent_disk_csi_driver_config": {"enabled": True},
            },
            node_pool_defaults={
                "node_config_defaults": {
                    "gcfs_config": {"enabled": gke.image_streaming},
                    "insecure_kubelet_readonly_port_enabled": "FALSE",
                }
            },
            logging_config={"enable_components": list(gke.logs)},
            monitoring_config={
                "enable_components": list(gke.metrics),
                "managed_prometheus": {"enabled": True},
            },
            security_posture_config={"mode": "BASIC", "vulnerability_mode": "VULNERABILITY_DISABLED"},
            cost_management_config={"enabled": True},
            authenticator_groups_config=_groups(plan),
            cluster_autoscaling=_auto_provisioning(plan),
            database_encryption=_secrets(plan),
            resource_labels=dict(plan.labels),
            deletion_protection=plan.protect,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(after),
                protect=plan.protect,
                # The first pool is gone, and with it what its nodes were like: compared, it would replace the cluster
                # at every change (github.com/hashicorp/terraform-provider-google/issues/12070).
                ignore_changes=["nodeConfig"],
            ),
        )

    def _system_pool(self, pool: SystemPoolPlan) -> gcp.container.NodePool:
        plan = self._plan
        config: gcp.container.NodePoolNodeConfigArgsDict = {
            "machine_type": pool.machine_type,
            "oauth_scopes": _SCOPES,
            "workload_metadata_config": {"mode": "GKE_METADATA"},
            "shielded_instance_config": {"enable_integrity_monitoring": True, "enable_secure_boot": True},
            "gcfs_config": {"enabled": plan.gke.image_streaming},
            "resource_labels": dict(plan.labels),
        }
        if plan.gke.nodes is not None:
            config["service_account"] = plan.gke.nodes.email
        if plan.key is not None:
            config["boot_disk_kms_key"] = plan.key.full_name
        return gcp.container.NodePool(
            "system",
            name=pool.name,
            cluster=self.cluster.name,
            location=plan.region,
            project=plan.project,
            autoscaling={
                "total_min_node_count": pool.min_nodes,
                "total_max_node_count": pool.max_nodes,
                "location_policy": "BALANCED",
            },
            ignore_node_count_changes=True,
            management={"auto_repair": True, "auto_upgrade": True},
            node_config=config,
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=list(SERVER_FILLED), custom_timeouts=pool_timeouts()
            ),
        )


def _has_gcs_fuse(addons: gcp.container.outputs.ClusterAddonsConfig | None) -> bool:
    driver = addons.gcs_fuse_csi_driver_config if addons else None
    return bool(driver and driver.enabled)


def _refuse(problems: list[str], plan: EnvironmentPlan) -> None:
    if problems:
        raise _refusal(problems, plan)


def _refusal(problems: list[str], plan: EnvironmentPlan) -> pulumi.RunError:
    return pulumi.RunError(f"cluster {plan.cluster} cannot be adopted: {'; '.join(problems)}")


def _first_pool(plan: EnvironmentPlan) -> gcp.container.ClusterNodeConfigArgsDict | None:
    """Nodes of the first pool live for minutes, and still need an account that may be one, and the key."""
    config: gcp.container.ClusterNodeConfigArgsDict = {}
    if plan.gke.nodes is not None:
        config["service_account"] = plan.gke.nodes.email
        config["oauth_scopes"] = _SCOPES
    if plan.key is not None:
        config["boot_disk_kms_key"] = plan.key.full_name
    return config or None


def _endpoint(gke: GkePlan) -> gcp.container.ClusterPrivateClusterConfigArgsDict:
    config: gcp.container.ClusterPrivateClusterConfigArgsDict = {
        "enable_private_nodes": True,
        "enable_private_endpoint": gke.private_endpoint,
    }
    if gke.control_plane_cidr is not None:
        config["master_ipv4_cidr_block"] = gke.control_plane_cidr
    return config


def _by_name(gke: GkePlan) -> gcp.container.ClusterControlPlaneEndpointsConfigArgsDict | None:
    if gke.dns_endpoint is None:
        return None
    return {"dns_endpoint_config": {"allow_external_traffic": gke.dns_endpoint}}


def _dns_name(endpoints: gcp.container.outputs.ClusterControlPlaneEndpointsConfig | None) -> str | None:
    """Give the DNS name of the API server, None where it lets nobody in by it."""
    found = endpoints.dns_endpoint_config if endpoints else None
    return found.endpoint if found is not None and found.allow_external_traffic else None


def _required(name: str | None, plan: EnvironmentPlan) -> str:
    """Refuse an adopted cluster that nobody reaches by the name that it is said to have."""
    if name is None:
        raise _refusal([NO_NAME], plan)
    return name


def _authorized(gke: GkePlan) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgsDict | None:
    """Google takes a cluster without a public endpoint only with a list of who may reach it, if an empty one."""
    if gke.authorized_networks is None and not gke.private_endpoint:
        return None
    listed = gke.authorized_networks or ()
    return {
        "cidr_blocks": [{"display_name": name, "cidr_block": cidr} for name, cidr in listed],
        # Addresses of other customers' machines on Google Cloud.
        "gcp_public_cidrs_access_enabled": False,
    }


def _groups(plan: EnvironmentPlan) -> gcp.container.ClusterAuthenticatorGroupsConfigArgsDict | None:
    """The group whose groups Kubernetes knows, if teams are given as groups."""
    group = plan.access.security_group if plan.access is not None else None
    return None if group is None else {"security_group": group}


def _secrets(plan: EnvironmentPlan) -> gcp.container.ClusterDatabaseEncryptionArgsDict | None:
    """Secrets of the cluster under the environment's key; GKE's own, when there is none."""
    return None if plan.key is None else {"state": "ENCRYPTED", "key_name": plan.key.full_name}


def _maintenance(gke: GkePlan) -> gcp.container.ClusterMaintenancePolicyArgsDict:
    window = gke.maintenance
    policy: gcp.container.ClusterMaintenancePolicyArgsDict = {
        "recurring_window": {
            "start_time": window.start,
            "end_time": window.end,
            "recurrence": window.recurrence,
        }
    }
    if window.exclusions:
        policy["maintenance_exclusions"] = [
            {
                "exclusion_name": one.name,
                "start_time": one.start,
                "end_time": one.end,
                "exclusion_options": {"scope": one.scope},
            }
            for one in window.exclusions
        ]
    return policy


def _auto_provisioning(plan: EnvironmentPlan) -> gcp.container.ClusterClusterAutoscalingArgsDict:
    """Pools that nobody asked for are off unless somebody asked for them; idle nodes go soon either way."""
    limits = plan.gke.auto_provisioning
    if limits is None:
        return {"enabled": False, "autoscaling_profile": "OPTIMIZE_UTILIZATION"}
    defaults: gcp.container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgsDict = {
        "oauth_scopes": _SCOPES,
        # Unsaid, the provider asks for disks of spinning metal (gke-auto-provisioned-disk).
        "disk_type": SYSTEM_DISK,
        "disk_size": SYSTEM_DISK_GB,
        "image_type": "COS_CONTAINERD",
        "management": {"auto_repair": True, "auto_upgrade": True},
        "shielded_instance_config": {"enable_integrity_monitoring": True, "enable_secure_boot": True},
    }
    if plan.gke.nodes is not None:
        defaults["service_account"] = plan.gke.nodes.email
    if plan.key is not None:
        defaults["boot_disk_kms_key"] = plan.key.full_name
    return {
        "enabled": True,
        "autoscaling_profile": "OPTIMIZE_UTILIZATION",
        "resource_limits": [
            {"resource_type": "cpu", "minimum": 0, "maximum": limits.cpu},
            {"resource_type": "memory", "minimum": 0, "maximum": limits.memory_gib},
        ],
        "auto_provisioning_defaults": defaults,
    }
