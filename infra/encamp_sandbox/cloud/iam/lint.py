"""Checks of IAM's linter for conditions, and the limits of a policy.

Sources: cloud.google.com/iam/quotas (limits), cloud.google.com/iam/docs/conditions-overview (conditions) and the lint
units of iam.googleapis.com ``iamPolicies.lintPolicy``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.iam.conditions import Attributes, ConditionError, holds, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp_sandbox.cloud.iam.policies import Binding

MOST_MEMBERS: Final = 1500
MOST_GROUPS: Final = 250
MOST_CONDITIONAL: Final = 20
MOST_OPERATORS: Final = 12
MOST_HAS_ONLY: Final = 10
_LONGEST_TITLE = 100
_LONGEST_DESCRIPTION = 256
_CONDITIONS_VERSION = 3
_OPERATORS = ("&&", "||", "!")
_SERVICE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LOG_TYPES = ("ADMIN_READ", "DATA_READ", "DATA_WRITE")


def check_condition(condition: Mapping[str, str]) -> None:
    """Refuse a condition that IAM's linter refuses.

    Raises:
        GoogleError: 400.
    """
    title = condition.get("title")
    if not title:
        raise GoogleError(400, "A condition has to have a title.", belief="iam-conditions-have-titles")
    if len(title) > _LONGEST_TITLE or len(condition.get("description") or "") > _LONGEST_DESCRIPTION:
        message = f"The title or the description of the condition '{title[:_LONGEST_TITLE]}' is too long."
        raise GoogleError(400, message, belief="iam-conditions-have-short-titles")
    expression = condition.get("expression", "")
    try:
        holds(expression, Attributes("", ""))
    except ConditionError as error:
        raise GoogleError(
            400, f"The condition '{title}' cannot be read: {error}.", belief="iam-conditions-are-cel"
        ) from error
    operators = sum(text in _OPERATORS for kind, text in tokens(expression) if kind == "sign")
    if operators > MOST_OPERATORS:
        message = f"The condition '{title}' has {operators} logical operators, at most {MOST_OPERATORS} are allowed."
        raise GoogleError(400, message, belief="iam-conditions-12-logical-operators")
    if (longest := _longest_has_only(expression)) > MOST_HAS_ONLY:
        message = (
            f"LintValidationUnits/HasOnlyListLengthCheck: the list of hasOnly in the condition '{title}' has {longest}"
            f" elements, at most {MOST_HAS_ONLY} are allowed."
        )
        raise GoogleError(400, message, belief="iam-has-only-10-elements")


def check_limits(bindings: Sequence[Binding], version: int) -> None:
    """Refuse a policy that is larger than IAM keeps.

    Raises:
        GoogleError: 400.
    """
    members = [member for binding in bindings for member in binding.members]
    if len(members) > MOST_MEMBERS:
        message = f"The number of members in the policy ({len(members)}) is larger than the maximum allowed size."
        raise GoogleError(400, message, belief="iam-policy-1500-members")
    groups = sum(member.startswith("group:") for member in members)
    if groups > MOST_GROUPS:
        message = f"The number of groups in the policy ({groups}) is larger than the maximum of {MOST_GROUPS}."
        raise GoogleError(400, message, belief="iam-policy-250-groups")
    conditional = [binding for binding in bindings if binding.condition]
    if conditional and version != _CONDITIONS_VERSION:
        message = "A policy that has a condition must be set with version 3."
        raise GoogleError(400, message, belief="iam-conditions-need-version-3")
    counted = Counter((binding.role, member) for binding in conditional for member in binding.members)
    for (role, member), count in counted.items():
        if count > MOST_CONDITIONAL:
            message = (
                f"{member} has the role {role} in {count} conditional bindings, at most {MOST_CONDITIONAL} are allowed."
            )
            raise GoogleError(400, message, belief="iam-20-conditional-bindings")


def check_audit_configs(configs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse configurations of audit logs that name no service or no type of log.

    Raises:
        GoogleError: 400.
    """
    for config in configs:
        service, logs = str(config.get("service")), config.get("auditLogConfigs") or ()
        if service != "allServices" and not _SERVICE.fullmatch(service):
            message = f"{service} is no name of a service, such as storage.googleapis.com."
            raise GoogleError(400, message, belief="iam-audit-configs-name-services")
        if not logs:
            message = f"The audit config of {service} has to have at least one type of audit log."
            raise GoogleError(400, message, belief="iam-audit-configs-name-types")
        wrong = [str(one.get("logType")) for one in logs if one.get("logType") not in _LOG_TYPES]
        if wrong:
            message = f"{wrong[0]} is no type of an audit log: {', '.join(_LOG_TYPES)}."
            raise GoogleError(400, message, belief="iam-audit-configs-name-types")


def _longest_has_only(expression: str) -> int:
    """Return the number of elements in the longest list of a ``hasOnly``."""
    found = tokens(expression)
    longest = 0
    for place, (_, text) in enumerate(found):
        if text != "hasOnly" and not text.endswith(".hasOnly"):
            continue
        elements = 0
        for kind, inner in found[place + 1 :]:
            if inner == "]":
                break
            elements += kind == "string"
        longest = max(longest, elements)
    return longest
