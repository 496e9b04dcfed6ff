"""IAM policies: who has which role on a resource, perhaps under a condition, and which accesses are logged.

A resource is named as IAM does: ``projects/P``, ``projects/_/buckets/B``, ``projects/P/serviceAccounts/EMAIL``.
Source: cloud.google.com/iam/docs/reference/rest/v1/Policy.

Belief: storage-policy-has-an-etag.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import aborted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp_sandbox.database import Database

#: The etag of a resource that has no policy yet.
NO_POLICY = "ACAB"
_CONDITION_FIELDS = ("title", "description", "expression")


@dataclass(frozen=True)
class Binding:
    """One role for some members, perhaps only where a condition holds."""

    role: str
    members: tuple[str, ...]
    condition: Mapping[str, str] | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Binding:
        """Read one from JSON data."""
        condition = data.get("condition")
        return cls(str(data.get("role")), tuple(data.get("members") or ()), clean_condition(condition))

    def json(self) -> dict[str, Any]:
        """Return the same as JSON data."""
        shown: dict[str, Any] = {"role": self.role, "members": list(self.members)}
        return {**shown, "condition": dict(self.condition)} if self.condition else shown


def clean_condition(condition: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return a condition's fields that are set, or None."""
    return {key: str(condition[key]) for key in _CONDITION_FIELDS if condition.get(key)} if condition else None


def bucket_policy_name(bucket: str) -> str:
    """Return the name under which a bucket's policy is kept."""
    return f"projects/_/buckets/{bucket}"


def _joined(bindings: Iterable[Binding]) -> list[Binding]:
    """Return one binding for each role and condition, as IAM keeps them, without empty ones."""
    members: dict[tuple[str, str], dict[str, None]] = {}
    first: dict[tuple[str, str], Binding] = {}
    for binding in bindings:
        key = (binding.role, json.dumps(binding.condition, sort_keys=True))
        first.setdefault(key, binding)
        members.setdefault(key, {}).update(dict.fromkeys(binding.members))
    return [
        Binding(binding.role, tuple(members[key]), binding.condition) for key, binding in first.items() if members[key]
    ]


class Policies:
    """The policies of one sandbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def bindings(self, resource: str) -> list[Binding]:
        """Return the bindings on a resource; none if no policy was set."""
        row = self._database.one("SELECT bindings FROM policies WHERE resource = ?", resource)
        return [Binding.of(data) for data in json.loads(row["bindings"])] if row else []

    def show(self, resource: str) -> dict[str, Any]:
        """Return the policy as the API shows it."""
        row = self._database.one("SELECT * FROM policies WHERE resource = ?", resource)
        bindings = json.loads(row["bindings"]) if row else []
        audits = json.loads(row["audit_configs"]) if row else []
        shown: dict[str, Any] = {
            "version": 3 if any("condition" in binding for binding in bindings) else 1,
            "etag": row["etag"] if row else NO_POLICY,
        }
        if bindings:
            shown["bindings"] = bindings
        return {**shown, "auditConfigs": audits} if audits else shown

    def replace(
        self,
        resource: str,
        bindings: Iterable[Binding],
        *,
        etag: str | None = None,
        audit_configs: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Set the whole policy; audit configs stay where none are given.

        Raises:
            GoogleError: 409 if ``etag`` is not the present one: somebody else changed the policy in between.
        """
        with self._database.transaction() as change:
            present = self.show(resource)
            if etag not in (None, "", present["etag"]):
                raise aborted("There were concurrent policy changes. Please retry the whole read-modify-write.")
            kept = [binding.json() for binding in _joined(bindings)]
            audits = present.get("auditConfigs", []) if audit_configs is None else audit_configs
            new_etag = base64.b64encode(secrets.token_bytes(8)).decode()
            change.execute(
                "INSERT INTO policies VALUES (?, ?, ?, ?) ON CONFLICT (resource) DO UPDATE SET"
                " bindings = excluded.bindings, etag = excluded.etag, audit_configs = excluded.audit_configs",
                (resource, json.dumps(kept), new_etag, json.dumps(audits)),
            )
        return self.show(resource)

    def drop(self, resource: str) -> None:
        """Forget the policy of what is gone."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM policies WHERE resource = ?", (resource,))

    def mark_deleted(self, email: str, unique_id: str) -> None:
        """Rewrite a deleted service account's bindings: they stay, and give nothing to a new one of the same name.

        Belief ``iam-deleted-accounts-stay-in-policies``.
        """
        live, gone = f"serviceAccount:{email}", f"deleted:serviceAccount:{email}?uid={unique_id}"
        with self._database.transaction() as change:
            for row in self._database.all("SELECT * FROM policies"):
                bindings = json.loads(row["bindings"])
                if not any(live in binding["members"] for binding in bindings):
                    continue
                for binding in bindings:
                    binding["members"] = [gone if member == live else member for member in binding["members"]]
                change.execute(
                    "UPDATE policies SET bindings = ? WHERE resource = ?", (json.dumps(bindings), row["resource"])
                )
