"""Policies that setIamPolicy accepts on a job: AI Platform's roles with permissions on jobs, for single members.

Sources: cloud.google.com/iam/docs/reference/rest/v1/Policy; the job model, section 11.
"""

from __future__ import annotations

import base64
import binascii
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from encamp.api.access import ROLE_PREFIX
from encamp.api.errors import wrong_fields
from encamp.errors import Problem
from encamp.spec.members import canonical
from encamp.spec.ml_roles import ml_roles
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EXAMPLE: Final = "write user:ana@example.com or serviceAccount:ci@my-project.iam.gserviceaccount.com"
_EVERYBODY: Final = frozenset({"allUsers", "allAuthenticatedUsers"})
#: cloud.google.com/iam/quotas: principals in one policy.
_MOST_MEMBERS: Final = 1500
_LONGEST_SHOWN: Final = 100
_MOST_PROBLEMS: Final = 100
_VERSIONS: Final = (0, 1, 3)
_POLICY_KEYS: Final = frozenset({"version", "bindings", "etag"})
_MASKS: Final = frozenset({"bindings", "etag", "version"})


def checked_policy(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a setIamPolicy request's policy in canonical form: bindings by role, each member once.

    ``etag`` is there where the request had one: base64 of what the caller had read.

    Raises:
        ApiError: INVALID_ARGUMENT, with the fields that are wrong, a hundred at most.
    """
    policy = body.get("policy")
    if not isinstance(policy, dict):
        raise wrong_fields([_problem("policy", "must be an object with bindings")])
    problems = list(islice(chain(_request(body), _policy(policy)), _MOST_PROBLEMS))
    if problems:
        raise wrong_fields(problems)
    members: dict[str, set[str]] = {}
    for binding in policy.get("bindings") or ():
        found = filter(None, map(canonical, binding.get("members") or ()))
        members.setdefault(binding["role"], set()).update(found)
    if sum(map(len, members.values())) > _MOST_MEMBERS:
        raise wrong_fields([_problem("policy.bindings", f"at most {_MOST_MEMBERS} members are in one policy")])
    bindings = [{"role": role, "members": sorted(each)} for role, each in sorted(members.items()) if each]
    kept: dict[str, Any] = {"version": 1, "bindings": bindings}
    return kept | ({"etag": policy["etag"]} if policy.get("etag") else {})


def job_roles() -> tuple[str, ...]:
    """Return the roles that a job's policy takes: those that hold a permission on jobs."""
    found = [role for role, held in ml_roles().roles.items() if any(name.startswith("ml.jobs.") for name in held)]
    return tuple(f"{ROLE_PREFIX}{role}" for role in found)


def _request(body: Mapping[str, Any]) -> Iterator[Problem]:
    for key in sorted(set(body) - {"policy", "updateMask"}):
        yield _problem(_shown(key), "is no field of this request", "send policy")
    mask = body.get("updateMask", "bindings")
    names = {part.strip() for part in mask.split(",")} if isinstance(mask, str) else set()
    if mask != "" and not ({"bindings"} <= names <= _MASKS):
        yield _problem("updateMask", "a job's policy has bindings and an etag", "write bindings,etag, or leave it out")


def _policy(policy: Mapping[str, Any]) -> Iterator[Problem]:
    for key in sorted(set(policy) - _POLICY_KEYS):
        hint = "leave it out: what is audited does not depend on the job" if key == "auditConfigs" else "leave it out"
        yield _problem(f"policy.{_shown(key)}", "is not kept for a job", hint)
    version = policy.get("version", 1)
    if isinstance(version, bool) or version not in _VERSIONS:
        yield _problem("policy.version", "must be 1 or 3")
    etag = policy.get("etag", "")
    if not isinstance(etag, str) or not _is_base64(etag):
        yield _problem("policy.etag", "must be base64", "send back the etag that getIamPolicy answered")
    bindings = policy.get("bindings")
    if bindings is None:
        return
    if not isinstance(bindings, list):
        yield _problem("policy.bindings", "must be a list")
        return
    if len(bindings) > _MOST_MEMBERS:
        yield _problem("policy.bindings", f"at most {_MOST_MEMBERS} bindings are in one policy")
        return
    for index, binding in enumerate(bindings):
        yield from _binding(f"policy.bindings[{index}]", binding)


def _binding(path: str, binding: object) -> Iterator[Problem]:
    if not isinstance(binding, dict):
        yield _problem(path, "must be an object with role and members")
        return
    for key in sorted(set(binding) - {"role", "members", "condition"}):
        yield _problem(f"{path}.{_shown(key)}", "is no field of a binding", "leave it out")
    if binding.get("condition"):
        yield _problem(f"{path}.condition", "a job's policy takes no conditions", "leave it out")
    yield from _role(f"{path}.role", binding.get("role"))
    members = binding.get("members")
    if members is None:
        return
    if not isinstance(members, list):
        yield _problem(f"{path}.members", "must be a list of members", _EXAMPLE)
        return
    for index, member in enumerate(members[: _MOST_MEMBERS + 1]):
        yield from _member(f"{path}.members[{index}]", member)


def _role(path: str, role: object) -> Iterator[Problem]:
    known = job_roles()
    if not isinstance(role, str) or role not in known:
        close = nearest(role, known) if isinstance(role, str) and len(role) <= _LONGEST_SHOWN else None
        yield _problem(path, f"{_shown(role)} is no role that a job takes", f"write {close or ' or '.join(known)}")


def _member(path: str, member: object) -> Iterator[Problem]:
    if not isinstance(member, str):
        yield _problem(path, "must be a text", _EXAMPLE)
    elif member in _EVERYBODY or member.startswith("domain:"):
        yield _problem(path, f"{_shown(member)} would let in whoever has an account", _EXAMPLE)
    elif member.startswith(("group:", "principalSet:")):
        yield _problem(path, f"{_shown(member)}: no token says who is in a group, so it would let nobody in", _EXAMPLE)
    elif canonical(member) is None:
        yield _problem(path, f"{_shown(member)} is no member of a job's policy", _EXAMPLE)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _shown(value: object) -> str:
    """Return a sent value, short and in one line."""
    text = value if isinstance(value, str) else type(value).__name__
    return ascii(text[:_LONGEST_SHOWN])[1:-1]


def _problem(path: str, message: str, hint: str | None = None) -> Problem:
    return Problem(path=path, line=None, rule=None, message=message, hint=hint)
