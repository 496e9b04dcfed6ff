"""GKE's clusters.

Source: hashicorp/terraform-provider-google-beta google-beta/services/container/resource_container_cluster.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.values import at, put
from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.types import node_config
from encamp_sandbox.gcp_provider.types.node_pool import Gke

if TYPE_CHECKING:
    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.gcp_provider.model import Context, Made
    from encamp_sandbox.provider import Properties

_DEFAULT_POOL = "default-pool"
_IP = "controlPlaneEndpointsConfig.ipEndpointsConfig"
_OWN = frozenset(
    {
        "allowNetAdmin", "deletionPolicy", "deletionProtection", "ignoreNodeCountChanges", "location",
        "masterAuthorizedNetworksConfig", "minMasterVersion", "name", "networkingMode", "nodePools",
        "privateClusterConfig", "project", "removeDefaultNodePool", "skipNodePoolRefresh",
    }
)  # fmt: skip
#: Properties that methods of their own change.
_METHODS: Final = {"maintenancePolicy": "setMaintenancePolicy", "networkPolicy": "setNetworkPolicy"}
#: Fields of ClusterUpdate that are not called after the cluster's field.
_DESIRED: Final = {
    "clusterAutoscaling": ("desiredClusterAutoscaling", "autoscaling"),
    "controlPlaneEndpointsConfig": ("desiredControlPlaneEndpointsConfig", "controlPlaneEndpointsConfig"),
    "masterAuthorizedNetworksConfig": ("desiredControlPlaneEndpointsConfig", "controlPlaneEndpointsConfig"),
    "privateClusterConfig": ("desiredControlPlaneEndpointsConfig", "controlPlaneEndpointsConfig"),
    "gatewayApiConfig": ("desiredGatewayApiConfig", "networkConfig.gatewayApiConfig"),
    "dnsConfig": ("desiredDnsConfig", "networkConfig.dnsConfig"),
    "serviceExternalIpsConfig": ("desiredServiceExternalIpsConfig", "networkConfig.serviceExternalIpsConfig"),
    "defaultSnatStatus": ("desiredDefaultSnatStatus", "networkConfig.defaultSnatStatus"),
    "nodePoolDefaults.gcfsConfig": ("desiredGcfsConfig", "nodePoolDefaults.nodeConfigDefaults.gcfsConfig"),
    "nodePoolDefaults.loggingVariant": (
        "desiredNodePoolLoggingConfig", "nodePoolDefaults.nodeConfigDefaults.loggingConfig",
    ),
    "nodePoolDefaults.insecureKubeletReadonlyPortEnabled": (
        "desiredNodeKubeletConfig", "nodePoolDefaults.nodeConfigDefaults.nodeKubeletConfig",
    ),
}  # fmt: skip


def _policy_out(policy: Body) -> Body:
    """Return a maintenance policy with its window and exclusions as the API nests them."""
    window: Body = {}
    if recurring := policy.get("recurringWindow"):
        times = {key: recurring[key] for key in ("startTime", "endTime")}
        window["recurringWindow"] = {"window": times, "recurrence": recurring["recurrence"]}
    if daily := policy.get("dailyMaintenanceWindow"):
        window["dailyMaintenanceWindow"] = daily
    exclusions = {
        one["exclusionName"]: {
            **{key: one[key] for key in ("startTime", "endTime") if one.get(key)},
            **({"maintenanceExclusionOptions": one["exclusionOptions"]} if one.get("exclusionOptions") else {}),
        }
        for one in policy.get("maintenanceExclusions") or ()
    }
    return {"window": {**window, **({"maintenanceExclusions": exclusions} if exclusions else {})}}


def _policy_in(policy: Body) -> Body | None:
    window = policy.get("window")
    if not window:
        return None
    found: Body = {}
    if recurring := window.get("recurringWindow"):
        found["recurringWindow"] = {**recurring["window"], "recurrence": recurring["recurrence"]}
    if daily := window.get("dailyMaintenanceWindow"):
        found["dailyMaintenanceWindow"] = daily
    if exclusions := window.get("maintenanceExclusions"):
        found["maintenanceExclusions"] = [
            {
                "exclusionName": name,
                **{key: one[key] for key in ("startTime", "endTime") if one.get(key)},
                **(
                    {"exclusionOptions": one["maintenanceExclusionOptions"]}
                    if one.get("maintenanceExclusionOptions")
                    else {}
                ),
            }
            for name, one in sorted(exclusions.items())
        ]
    return found


def _endpoints(body: Body, inputs: Properties) -> None:
    """Put the control plane's access into the API's fields: private nodes and endpoint, and authorized networks."""
    private, listed = inputs.get("privateClusterConfig"), inputs.get("masterAuthorizedNetworksConfig")
    if private is not None:
        put(body, "networkConfig.defaultEnablePrivateNodes", bool(private.get("enablePrivateNodes")))
        put(body, f"{_IP}.enablePublicEndpoint", not private.get("enablePrivateEndpoint"))
        put(body, f"{_IP}.globalAccess", bool(at(private, "masterGlobalAccessConfig.enabled")))
        put(body, f"{_IP}.privateEndpointSubnetwork", private.get("privateEndpointSubnetwork"))
        if block := private.get("masterIpv4CidrBlock"):
            nodes = bool(private.get("enablePrivateNodes"))
            body["privateClusterConfig"] = {"enablePrivateNodes": nodes, "masterIpv4CidrBlock": block}
    networks: Body = {} if listed is None else {"enabled": True, **listed}
    if private is not None or listed is not None:
        put(body, f"{_IP}.enabled", at(body, f"{_IP}.enabled") is not False)
    put(body, f"{_IP}.authorizedNetworksConfig", networks)


class _Clusters(Gke):
    """Clusters, which GKE makes with a first pool."""

    def body(self, inputs: Properties) -> Body:
        """Return the API's cluster of inputs."""
        body = self.mapping.body(self.schema.fields, inputs)
        if inputs.get("networkingMode") == "VPC_NATIVE" or inputs.get("ipAllocationPolicy"):
            put(body, "ipAllocationPolicy.useIpAliases", True)
        if inputs.get("authenticatorGroupsConfig"):
            put(body, "authenticatorGroupsConfig.enabled", True)
        if version := inputs.get("minMasterVersion"):
            body["initialClusterVersion"] = version
        _endpoints(body, inputs)
        return body

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the cluster, and take its first pool away if that was asked for."""
        cluster = {**self.body(inputs), "name": inputs["name"]}
        self._label(cluster, self._new_labels(inputs, context))
        name = self.name(inputs, context)
        path = self.path(self.collection(inputs, context))
        unfinished = await self.started(name, path, {"cluster": cluster}, inputs, context)
        if unfinished is not None:
            return unfinished
        if inputs.get("removeDefaultNodePool"):
            await self.ask("DELETE", self.path(f"{name}/nodePools/{_DEFAULT_POOL}"), context)
        return await self.found(name, inputs, context)

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Change the cluster, one field of the API after the other."""
        path = self.path(made.resource_id)
        body = self.body(inputs)
        top = {str(one[0]) for one in changed}
        if "resourceLabels" in top:
            present = await context.rest.call("GET", path, context.patience)
            labels = self._labels(made.outputs, inputs, context)
            wanted = {"resourceLabels": labels, "labelFingerprint": present["labelFingerprint"]}
            await self.ask("POST", f"{path}:setResourceLabels", context, wanted)
        for name in sorted(top & set(_METHODS)):
            await self.ask("POST", f"{path}:{_METHODS[name]}", context, {name: body.get(name) or {}})
        for desired, value in self._desired(changed, body, inputs).items():
            await self.ask("PUT", path, context, {"update": {desired: value}})
        return await self.found(made.resource_id, inputs, context)

    def _desired(self, changed: set[Path], body: Body, inputs: Properties) -> dict[str, Any]:
        """Return the fields of ClusterUpdate that changed properties stand for."""
        found: dict[str, Any] = {}
        for one in changed:
            first = str(one[0])
            if first in ("resourceLabels", "nodeConfig", *_METHODS):
                continue
            key = f"nodePoolDefaults.{one[2]}" if first == "nodePoolDefaults" and len(one) > 2 else first  # noqa: PLR2004
            if first == "minMasterVersion":
                found["desiredMasterVersion"] = inputs.get(first)
            elif key in _DESIRED:
                desired, where = _DESIRED[key]
                found[desired] = at(body, where)
            elif first not in _OWN:
                field = self.mapping.names.get(first, first).partition(".")[0]
                found[f"desired{field[0].upper()}{field[1:]}"] = body.get(field)
        return found

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete the cluster with its pools."""
        del inputs
        if await context.rest.find(self.path(resource_id), context.patience) is not None:
            await self.ask("DELETE", self.path(resource_id), context)


def _show(answer: Body, inputs: Properties, _context: Context) -> Body:
    """Return Pulumi's properties beside the API's fields."""
    auth, ip = answer.get("masterAuth") or {}, at(answer, _IP) or {}
    listed = ip.get("authorizedNetworksConfig") or {}
    issued = {"issueClientCertificate": bool(auth.get("clientCertificate"))}
    certificates = {key: auth.get(key, "") for key in ("clientCertificate", "clientKey", "clusterCaCertificate")}
    private = {
        "enablePrivateEndpoint": not ip.get("enablePublicEndpoint"),
        "enablePrivateNodes": bool(at(answer, "networkConfig.defaultEnablePrivateNodes")),
        "masterGlobalAccessConfig": {"enabled": bool(ip.get("globalAccess"))},
        "masterIpv4CidrBlock": at(answer, "privateClusterConfig.masterIpv4CidrBlock") or "",
        "peeringName": at(answer, "privateClusterConfig.peeringName") or "",
        "privateEndpoint": ip.get("privateEndpoint", ""),
        "privateEndpointSubnetwork": ip.get("privateEndpointSubnetwork", ""),
        "publicEndpoint": ip.get("publicEndpoint", ""),
    }
    shown: Body = {
        "location": answer["location"],
        "masterAuth": {**certificates, "clientCertificateConfig": issued},
        "name": answer["name"],
        "network": answer["networkConfig"]["network"],
        "networkingMode": "VPC_NATIVE" if at(answer, "ipAllocationPolicy.useIpAliases") else "ROUTES",
        "operation": "",
        "privateClusterConfig": private,
        "subnetwork": answer["networkConfig"]["subnetwork"],
        "tpuIpv4CidrBlock": "",
        "enableAutopilot": bool(at(answer, "autopilot.enabled")),
    }
    if listed.get("enabled"):
        blocks = {"cidrBlocks": listed.get("cidrBlocks") or []}
        flags = {
            key: bool(listed.get(key)) for key in ("gcpPublicCidrsAccessEnabled", "privateEndpointEnforcementEnabled")
        }
        shown["masterAuthorizedNetworksConfig"] = {**blocks, **flags}
    if config := answer.get("nodeConfig"):
        mapped = CLUSTER.mapping.properties(CLUSTER.schema.fields, {"nodeConfig": config})
        shown["nodeConfig"] = node_config.shown(mapped["nodeConfig"], inputs.get("nodeConfig"))
    return shown


def _minutes(old: Any, new: Any) -> bool:
    """Whether two windows begin at the same time of the day."""
    return str(old)[11:16] == str(new)[11:16] if "T" in str(old) and "T" in str(new) else old == new


_POOLS = "nodePoolDefaults.nodeConfigDefaults"
_SCALING = "clusterAutoscaling"
_NETWORK = {
    name: f"networkConfig.{name}"
    for name in ("datapathProvider", "dnsConfig", "gatewayApiConfig", "defaultSnatStatus", "serviceExternalIpsConfig",
                 "privateIpv6GoogleAccess", "enableMultiNetworking", "enableFqdnNetworkPolicy",
                 "enableCiliumClusterwideNetworkPolicy", "inTransitEncryptionConfig")
}  # fmt: skip
CLUSTER: Final = _Clusters(
    "gcp:container/cluster:Cluster",
    "container/v1beta1",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/locations/{context.location_of(inputs)}/clusters",
    TypeMapping(
        names={
            "nodeLocations": "locations",
            "masterVersion": "currentMasterVersion",
            "nodeVersion": "currentNodeVersion",
            "enableLegacyAbac": "legacyAbac.enabled",
            "enableShieldedNodes": "shieldedNodes.enabled",
            "enableAutopilot": "autopilot.enabled",
            "enableIntranodeVisibility": "networkConfig.enableIntraNodeVisibility",
            "enableL4IlbSubsetting": "networkConfig.enableL4ilbSubsetting",
            "defaultMaxPodsPerNode": "defaultMaxPodsConstraint.maxPodsPerNode",
            **_NETWORK,
            "loggingConfig.enableComponents": "componentConfig.enableComponents",
            "monitoringConfig.enableComponents": "componentConfig.enableComponents",
            "monitoringConfig.managedPrometheus": "managedPrometheusConfig",
            "ipAllocationPolicy.podCidrOverprovisionConfig.disabled": "disable",
            "addonsConfig.cloudrunConfig": "cloudRunConfig",
            "addonsConfig.rayOperatorConfigs": "rayOperatorConfig",
            f"{_POOLS}.loggingVariant": "loggingConfig.variantConfig.variant",
            f"{_POOLS}.insecureKubeletReadonlyPortEnabled": "nodeKubeletConfig.insecureKubeletReadonlyPortEnabled",
            _SCALING: "autoscaling",
            f"{_SCALING}.enabled": "enableNodeAutoprovisioning",
            f"{_SCALING}.autoProvisioningDefaults": "autoprovisioningNodePoolDefaults",
            f"{_SCALING}.autoProvisioningDefaults.diskSize": "diskSizeGb",
            f"{_SCALING}.autoProvisioningLocations": "autoprovisioningLocations",
            f"{_SCALING}.defaultComputeClassEnabled": "defaultComputeClassConfig.enabled",
            **node_config.names("nodeConfig"),
        },
        longs=frozenset(
            {"defaultMaxPodsPerNode", f"{_SCALING}.resourceLimits.minimum", f"{_SCALING}.resourceLimits.maximum"}
        )
        | node_config.longs("nodeConfig"),
        out={
            "maintenancePolicy": _policy_out,
            f"{_POOLS}.insecureKubeletReadonlyPortEnabled": node_config.from_flag,
            **node_config.out("nodeConfig"),
        },
        into={
            "maintenancePolicy": _policy_in,
            f"{_POOLS}.insecureKubeletReadonlyPortEnabled": node_config.to_flag,
            **node_config.into("nodeConfig"),
        },
        own=_OWN,
    ),
    show=_show,
    labels="resourceLabels",
    suppress={
        "maintenancePolicy.recurringWindow.startTime": _minutes,
        "nodeConfig.resourceLabels": node_config.same_labels,
        "nodeConfig.oauthScopes": node_config.same_scopes,
    },
)
