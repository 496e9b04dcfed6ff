"""The two forms of a declaration: a kind of Kubernetes object, and a kind of resource of Google Cloud."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Verbs of Kubernetes by what somebody does. The provider watches an object that it deletes until it is gone
#: (kubernetes-delete-watches).
_SEE = ("get", "list", "watch")


class Deed(StrEnum):
    """An action on the resources of a job; roles are made of deeds."""

    SEE = "see"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class ObjectKind:
    """A kind of Kubernetes object in the namespace of the jobs. All of them are found by the job's labels.

    Attributes:
        kind: as manifests say it, such as ``NetworkPolicy``.
        group: its API group, empty for the core.
        permission: the IAM permission without its verb by which GKE lets members of the project at it.
        in_stack: the job's stack declares it. Controllers make the others, from what the stack declares.
        has_replicas: replicas run as long as it exists, also where another object owns it.
        newer: roles of older environments do not name it, so a refused listing counts as an empty one. Only for a kind
            that costs nothing and that goes with the job's stack.
    """

    kind: str
    group: str
    version: str
    permission: str = "container.thirdPartyObjects"
    in_stack: bool = True
    has_replicas: bool = False
    newer: bool = False

    @property
    def plural(self) -> str:
        """The kind in paths and RBAC rules, such as ``networkpolicies``."""
        return _plural(self.word)

    @property
    def word(self) -> str:
        """The kind in messages and receipts, such as ``networkpolicy``."""
        return self.kind.lower()

    @property
    def path(self) -> str:
        """The path of its API version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def token(self) -> str:
        """The engine's type token."""
        return f"kubernetes:{self.group or 'core'}/{self.version}:{self.kind}"

    def verbs(self, deed: Deed) -> tuple[str, ...]:
        """Return the RBAC verbs of a deed; nobody creates or changes what controllers make."""
        if deed is Deed.SEE:
            return _SEE
        if deed is Deed.DELETE:
            return ("delete",)
        made = {Deed.CREATE: ("create",), Deed.UPDATE: ("patch", "update")}
        return made[deed] if self.in_stack else ()


@dataclass(frozen=True)
class GoogleKind:
    """A kind of resource of Google Cloud.

    Attributes:
        token: the engine's type token.
        word: the kind in messages and receipts, such as ``node pool``.
        role: the predefined role that holds its permissions.
        see: permissions to list it, for everybody who sees jobs: the project's, without a condition.
        create: permissions to create it, and to read what that takes.
        delete: the same to delete it.
        runs_as_account: creating it takes the right to act as the account of its machines.
        conditional: teams and the reaper hold ``create`` and ``delete`` on some resources only, or under a condition:
            ``spec/data/ml_access.json`` says which. Other kinds' are theirs in the whole project.
        labels_at: where an answer of its API holds the labels by which it is found, the surest place first. A text
            holds them as ``key=value`` words. Empty for what carries none: it is found by what it names.
        import_id: the id by which the provider reads one, from its inputs; None where it is never read so. Source: the
            import section of its page, https://www.pulumi.com/registry/packages/gcp/api-docs/.
        resumes: at a refresh its provider waits for the operation of a create that was cut short.
    """

    token: str
    word: str
    role: str
    see: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    runs_as_account: bool = False
    conditional: bool = False
    labels_at: tuple[str, ...] = ()
    import_id: str | None = None
    resumes: bool = False

    @property
    def plural(self) -> str:
        """The kind's word for several."""
        return _plural(self.word)

    @property
    def permissions(self) -> tuple[str, ...]:
        """Every permission that its whole life takes."""
        return (*self.see, *self.create, *self.delete)

    def rights(self, deed: Deed) -> tuple[str, ...]:
        """Return the permissions of a deed in the whole project, without a condition."""
        if deed is Deed.SEE:
            return self.see
        return {Deed.CREATE: self.create, Deed.DELETE: self.delete}.get(deed, ()) if not self.conditional else ()

    def labels(self, item: Mapping[str, Any]) -> dict[str, str]:
        """Return the labels of a resource as its API answers it."""
        labels: dict[str, str] = {}
        for place in reversed(self.labels_at):
            found: Any = item
            for key in place.split("."):
                found = (found or {}).get(key)
            labels |= described(found) if isinstance(found, str) else found or {}
        return labels


def described(description: str) -> dict[str, str]:
    """Return the labels that stand in a description as ``key=value`` words."""
    words = (word.partition("=") for word in description.split())
    return {key: value for key, sign, value in words if sign}


def _plural(word: str) -> str:
    return f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"
