"""Conditions for an object's readiness: the official provider's awaits for core kinds, and ``pulumi.com/waitFor``.

Every check looks at one live object and answers ``Readiness``. Sources: pulumi-kubernetes provider/pkg/await and
provider/pkg/await/condition; the JSONPath of ``waitFor`` is kubectl's relaxed one, of which fields, quoted keys,
indices, ``[*]`` and equality filters are understood.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[Mapping[str, Any]], "Readiness"]

STEP: Final = re.compile(
    r"""\.(?P<name>[A-Za-z_$][\w$-]*)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<quote>['"])(?P<key>.+?)(?P=quote)\s*\]
      | (?P<all>\[\s*\*\s*\]|\.\*)
      | \[\?\(\s*@\.(?P<field>[\w.-]+)\s*==\s*['"]?(?P<wanted>[^'")]*)['"]?\s*\)\]""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Readiness:
    """Whether an object is ready; ``failed`` means that it never will be; ``reason`` is a sentence for people."""

    ready: bool
    reason: str = ""
    failed: bool = False


READY: Final = Readiness(ready=True)


def wait_for(annotation: str) -> Check:
    """Return the check that a ``pulumi.com/waitFor`` annotation asks for.

    Raises:
        ProviderError: the annotation is none of jsonpath=, condition= or a JSON array of those.
    """
    text = annotation.strip()
    if text.startswith("["):
        try:
            parts = [wait_for(part) for part in json.loads(text)]
        except (ValueError, TypeError, AttributeError) as error:
            raise ProviderError(f"pulumi.com/waitFor is no JSON array of texts: {annotation}") from error
        return lambda obj: next((found for part in parts if not (found := part(obj)).ready), READY)
    if text.startswith("jsonpath="):
        return _jsonpath(text.removeprefix("jsonpath="))
    if text.startswith("condition="):
        kind, _, status = text.removeprefix("condition=").partition("=")
        return lambda obj: _has_condition(obj, kind, status or "True")
    raise ProviderError(
        f"pulumi.com/waitFor says {annotation!r}", hint="use jsonpath={.path}=value, condition=Type=Status, or an array"
    )


def _jsonpath(expression: str) -> Check:
    body, _, wanted = expression.partition("}")
    if not body.startswith("{") or (wanted and not wanted.startswith("=")):
        raise ProviderError(f"pulumi.com/waitFor: {expression!r} is no JSONPath in braces, with =value or without")
    path, value = body[1:].strip().removeprefix("$"), wanted.removeprefix("=")
    steps = _steps(path)

    def check(obj: Mapping[str, Any]) -> Readiness:
        found = [item for item in _walk([obj], steps) if item is not None]
        if found and (not wanted or any(_text(item) == value for item in found)):
            return READY
        has = ", ".join(_text(item) for item in found) or "absent"
        return Readiness(ready=False, reason=f"{path} is {has}" + (f", waiting for {value}" if wanted else ""))

    return check


def _steps(path: str) -> list[re.Match[str]]:
    steps: list[re.Match[str]] = []
    position = 0
    while position < len(path):
        step = STEP.match(path, position)
        if step is None:
            raise ProviderError(f"pulumi.com/waitFor: {path!r} is not understood from {path[position:]!r} on")
        steps.append(step)
        position = step.end()
    return steps


def _walk(values: list[Any], steps: list[re.Match[str]]) -> list[Any]:
    for step in steps:
        values = [found for value in values for found in _step(value, step)]
    return values


def _step(value: Any, step: re.Match[str]) -> list[Any]:
    key = step["name"] or step["key"]
    if key is not None:
        return [value[key]] if isinstance(value, dict) and key in value else []
    if step["index"] is not None:
        index = int(step["index"])
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    items = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if step["all"]:
        return items
    inner = _steps("." + step["field"])
    return [item for item in items if any(_text(found) == step["wanted"] for found in _walk([item], inner))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type", "").lower() == kind.lower()), {})


def _has_condition(obj: Mapping[str, Any], kind: str, status: str) -> Readiness:
    found = _condition(obj, kind)
    observed = found.get("observedGeneration", obj.get("metadata", {}).get("generation"))
    stale = observed != obj.get("metadata", {}).get("generation")
    if found.get("status", "").lower() == status.lower() and not stale:
        return READY
    return Readiness(ready=False, reason=f"condition {kind} is {_told(found)}, waiting for {status}")


def _told(condition: Mapping[str, Any]) -> str:
    told = [condition.get("status", "absent"), condition.get("reason", ""), condition.get("message", "")]
    return ": ".join(part for part in told if part)


def default_check(obj: Mapping[str, Any]) -> Check | None:
    """Return the await of a built-in kind, None if there is nothing to wait for (as for every custom resource)."""
    return CHECKS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))


def _pod(obj: Mapping[str, Any]) -> Readiness:
    status = obj.get("status") or {}
    if status.get("phase") == "Succeeded":
        return READY
    if status.get("phase") == "Failed":
        reason = status.get("message") or status.get("reason") or "a container failed"
        return Readiness(ready=False, reason=f"the pod failed: {reason}", failed=True)
    if _condition(obj, "Ready").get("status") == "True":
        return READY
    for kind in ("PodScheduled", "Initialized", "Ready"):
        found = _condition(obj, kind)
        if found.get("status") != "True":
            return Readiness(ready=False, reason=f"the pod's {kind} is {_told(found)}")
    return READY


def _job(obj: Mapping[str, Any]) -> Readiness:
    if _condition(obj, "Complete").get("status") == "True":
        return READY
    failed = _condition(obj, "Failed")
    if failed.get("status") == "True":
        return Readiness(ready=False, reason=f"the job failed: {_told(failed)}", failed=True)
    return Readiness(ready=False, reason="the job has not completed")


def _deployment(obj: Mapping[str, Any]) -> Readiness:
    status, wanted = obj.get("status") or {}, (obj.get("spec") or {}).get("replicas", 1)
    progressing = _condition(obj, "Progressing")
    if progressing.get("status") == "False" and progressing.get("reason") == "ProgressDeadlineExceeded":
        return Readiness(ready=False, reason=f"the deployment stopped progressing: {_told(progressing)}", failed=True)
    settled = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
    if settled and status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == wanted:
        return READY
    available = status.get("availableReplicas", 0)
    return Readiness(ready=False, reason=f"{available} of {wanted} replicas are available")


def _stateful_set(obj: Mapping[str, Any]) -> Readiness:
    status, wanted = obj.get("status") or {}, (obj.get("spec") or {}).get("replicas", 1)
    settled = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
    if settled and status.get("readyReplicas", 0) == wanted:
        return READY
    return Readiness(ready=False, reason=f"{status.get('readyReplicas', 0)} of {wanted} replicas are ready")


def _service(obj: Mapping[str, Any]) -> Readiness:
    spec = obj.get("spec") or {}
    if spec.get("type") == "LoadBalancer" and not (obj.get("status") or {}).get("loadBalancer", {}).get("ingress"):
        return Readiness(ready=False, reason="the load balancer has no address")
    return READY


CHECKS: Final[dict[tuple[str, str], Check]] = {
    ("v1", "Pod"): _pod,
    ("v1", "Service"): _service,
    ("batch/v1", "Job"): _job,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "StatefulSet"): _stateful_set,
}
