"""What people ask of a project before they make anything: its APIs, who pays, its quotas, the state of a key.

Sources, below cloud.google.com: service-usage/docs/reference/rest/v1/services, billing/docs/reference/rest/v1/projects,
docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos,
kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp.sandbox.cloud.calls import no_such_method, page
from encamp.sandbox.cloud.errors import not_found
from encamp.sandbox.project import project_number
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from starlette.responses import Response

    from encamp.sandbox.cloud.access import Access
    from encamp.sandbox.cloud.calls import Call
    from encamp.sandbox.cloud.store import CloudResource, CloudStore

#: What every project has on without being asked: cloud.google.com/service-usage/docs/enabled-service.
_ALWAYS_ON = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com", "cloudbilling.googleapis.com")
#: Of every quota; more than this machine could run.
_LIMIT = 10_000.0
#: Beliefs: iam-service-account-metric, iam-service-accounts-per-project.
_ACCOUNTS = {
    "quotaId": "ServiceAccountsPerProject",
    "metric": "iam.googleapis.com/quota/service-account-count",
    "service": "iam.googleapis.com",
    "dimensionsInfos": [{"details": {"value": "100"}}],
}
_DISKS = ("DISKS_TOTAL_GB", "SSD_TOTAL_GB", "HDB_TOTAL_GB")


class ProjectApi:
    """Serves serviceusage, cloudbilling, cloudquotas and, for keys, cloudkms."""

    def __init__(self, store: CloudStore, access: Access) -> None:
        self._store = store
        self._access = access

    async def services(self, call: Call) -> Response:
        """Answer a call of the Service Usage API."""
        match call.method, call.plain:
            case "GET", ("v1", "projects", project, "services"):
                self._access.require(call.principal, "serviceusage.services.list")
                on = {item.short_name for item in self._store.all_of("service", f"projects/{project}")}
                number = project_number(self._access.project)
                listed = [
                    {"name": f"projects/{number}/services/{name}", "config": {"name": name}, "state": "ENABLED"}
                    for name in sorted({*on, *_ALWAYS_ON})
                ]
                shown, following = page(listed, call.query)
                return JSONResponse({"services": shown, **({"nextPageToken": following} if following else {})})
        raise no_such_method(call)

    async def billing(self, call: Call) -> Response:
        """Answer a call of the Cloud Billing API."""
        match call.method, call.plain:
            case "GET", ("v1", "projects", project, "billingInfo"):
                self._access.require(call.principal, "resourcemanager.projects.get")
                account = "billingAccounts/000000-000000-000000"
                named = {"name": f"projects/{project}/billingInfo", "projectId": self._access.project}
                return JSONResponse({**named, "billingAccountName": account, "billingEnabled": True})
            case "POST", ("v1", "billingAccounts", _) if call.verb == "testIamPermissions":
                return JSONResponse({"permissions": (await call.json()).get("permissions") or []})
        raise no_such_method(call)

    async def quotas(self, call: Call) -> Response:
        """Answer a call of the Cloud Quotas API: every family has the same limit everywhere."""
        match call.method, call.plain:
            case "GET", ("v1", "projects", _, "locations", "global", "services", "iam.googleapis.com", "quotaInfos"):
                self._access.require(call.principal, "cloudquotas.quotas.get")
                return JSONResponse({"quotaInfos": [_ACCOUNTS]})
            case "GET", ("v1", "projects", _, "locations", "global", "services", service, "quotaInfos", quota):
                self._access.require(call.principal, "cloudquotas.quotas.get")
                shown = {"quotaId": quota, "service": service}
                return JSONResponse({**shown, "dimensionsInfos": [{"details": {"value": str(int(_LIMIT))}}]})
        raise no_such_method(call)

    async def keys(self, call: Call) -> Response:
        """Answer a call of Cloud KMS."""
        match call.method, call.plain:
            case _, ("v1", "projects", project, "locations", place, "keyRings", ring, "cryptoKeys", key):
                name = f"projects/{project}/locations/{place}/keyRings/{ring}/cryptoKeys/{key}"
                found = self._store.find(name)
                if found is None:
                    raise not_found(name)
                if call.method == "GET" and not call.verb:
                    self._access.require(call.principal, "cloudkms.cryptoKeys.get", resource=name)
                    return JSONResponse(_key(found))
                if call.method == "POST" and call.verb == "testIamPermissions":
                    asked = (await call.json()).get("permissions") or []
                    given = [one for one in asked if self._access.allows(call.principal, one, resource=name)]
                    return JSONResponse({"permissions": given} if given else {})
        raise no_such_method(call)


def regional_quotas(store: CloudStore, region: str) -> list[dict[str, Any]]:
    """The quotas of a region as Compute Engine lists them; what is in use is that of node pools."""
    table = data_file("quotas")
    metrics = {entry["metric"] for kind in ("cpus", "gpus", "tpus") for entry in table[kind].values()}
    metrics |= {f"{table['preemptible']['prefix']}{metric}" for metric in metrics}
    used = dict.fromkeys(
        sorted({*metrics, *_DISKS, table["preemptible"]["cpus"], "INSTANCES", "IN_USE_ADDRESSES"}), 0.0
    )
    for pool in store.all_of("nodePool"):
        nodes = pool.body["facts"].get("currentNodeCount") or 0
        if f"/locations/{region}/" not in pool.name or not nodes:
            continue
        config = pool.body["inputs"].get("nodeConfig") or {}
        machine = str(config.get("machineType") or "e2-medium")
        entry = table["cpus"].get(machine.partition("-")[0])
        used["INSTANCES"] += nodes
        if entry is not None and machine in data_file("machines"):
            taken = table["preemptible"]["cpus"] if config.get("spot") else entry["metric"]
            used[taken] += nodes * data_file("machines")[machine]["vcpu"]
    return [{"metric": metric, "limit": _LIMIT, "usage": usage} for metric, usage in used.items()]


def _key(resource: CloudResource) -> dict[str, Any]:
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    state = "DESTROY_SCHEDULED" if facts.get("destroyed") else "ENABLED"
    return {
        "name": resource.name,
        "purpose": inputs.get("purpose") or "ENCRYPT_DECRYPT",
        "createTime": resource.created,
        "primary": {"name": f"{resource.name}/cryptoKeyVersions/1", "state": state},
    }
