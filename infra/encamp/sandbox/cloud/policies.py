"""IAM policies: who has which role on a project, a bucket or a service account, perhaps under a condition.

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

from encamp.sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.sandbox.database import Database

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
        """The same as JSON data."""
        shown: dict[str, Any] = {"role": self.role, "members": list(self.members)}
        return {**shown, "condition": dict(self.condition)} if self.condition else shown


def clean_condition(condition: Mapping[str, Any] | None) -> dict[str, str] | None:
    """A condition's fields that are set, or None."""
    return {key: str(condition[key]) for key in _CONDITION_FIELDS if condition.get(key)} if condition else None


def bucket_policy_name(bucket: str) -> str:
    """The name under which a bucket's policy is kept."""
    return f"projects/_/buckets/{bucket}"


class Policies:
    """The policies of one sandbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def bindings(self, resource: str) -> list[Binding]:
        """The bindings on a resource; none where no policy was set."""
        row = self._database.one("SELECT bindings FROM policies WHERE resource = ?", resource)
        return [Binding.of(data) for data in json.loads(row["bindings"])] if row else []

    def show(self, resource: str) -> dict[str, Any]:
        """The policy as the API shows it."""
        row = self._database.one("SELECT * FROM policies WHERE resource = ?", resource)
        bindings = json.loads(row["bindings"]) if row else []
        version = 3 if any("condition" in binding for binding in bindings) else 1
        etag = row["etag"] if row else "ACAB"
        return {"version": version, "etag": etag, **({"bindings": bindings} if bindings else {})}

    def replace(self, resource: str, bindings: Iterable[Binding], *, etag: str | None = None) -> dict[str, Any]:
        """Set the whole policy.

        Raises:
            GoogleError: 409 if ``etag`` is not the present one: somebody else changed the policy in between.
        """
        with self._database.transaction() as change:
            if etag not in (None, "", self.show(resource)["etag"]):
                message = "There were concurrent policy changes. Please retry the whole read-modify-write."
                raise GoogleError(409, message, reason="aborted", status="ABORTED")
            kept = [binding.json() for binding in bindings if binding.members]
            change.execute(
                "INSERT INTO policies VALUES (?, ?, ?) ON CONFLICT (resource)"
                " DO UPDATE SET bindings = excluded.bindings, etag = excluded.etag",
                (resource, json.dumps(kept), base64.b64encode(secrets.token_bytes(8)).decode()),
            )
        return self.show(resource)

    def has(self, resource: str, role: str, member: str, condition: Mapping[str, Any] | None) -> bool:
        """Whether a member has exactly this role under exactly this condition."""
        wanted = clean_condition(condition)
        return any(
            binding.role == role and binding.condition == wanted and member in binding.members
            for binding in self.bindings(resource)
        )

    def add(self, resource: str, role: str, member: str, condition: Mapping[str, Any] | None) -> dict[str, Any]:
        """Give a member a role."""
        wanted = clean_condition(condition)
        with self._database.transaction():
            bindings = self.bindings(resource)
            for index, binding in enumerate(bindings):
                if (binding.role, binding.condition) == (role, wanted):
                    members = (*binding.members, *(() if member in binding.members else (member,)))
                    bindings[index] = Binding(role, members, wanted)
                    break
            else:
                bindings.append(Binding(role, (member,), wanted))
            return self.replace(resource, bindings)

    def remove(self, resource: str, role: str, member: str, condition: Mapping[str, Any] | None) -> None:
        """Take a role from a member; nothing happens if it has not got it."""
        wanted = clean_condition(condition)
        with self._database.transaction():
            kept = [
                Binding(role, tuple(other for other in binding.members if other != member), wanted)
                if (binding.role, binding.condition) == (role, wanted)
                else binding
                for binding in self.bindings(resource)
            ]
            self.replace(resource, kept)

    def drop(self, resource: str) -> None:
        """Forget the policy of what is gone."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM policies WHERE resource = ?", (resource,))

    def mark_deleted(self, email: str, unique_id: str) -> None:
        """Rewrite a deleted service account's bindings: they stay, and give nothing to a new one of the same name.

        Source: cloud.google.com/iam/docs/policies#handle-deleted-members.
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
