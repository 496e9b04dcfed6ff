"""How the kubelet starts a replica of a JobSet, and text that it might trip over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

ARGUMENT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
NASTY = st.sampled_from(
    ["$(X)", "$$", "$", "{{", "}}", "{%", "\n", '"', "'", "\\", "\u2028", "\x85", "\ufeff", "#", "!!x"]
)


def expand(text: str, known: Mapping[str, str]) -> str:
    """``$(NAME)`` as the kubelet resolves it: ``$$`` is ``$``, an unknown name stays as it is."""
    result, at = "", 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        end = text.find(")", at)
        if text[at] != "$" or not following:
            result += text[at]
            at += 1
        elif following == "$":
            result += "$"
            at += 2
        elif following == "(" and end > 0:
            name = text[at + 2 : end]
            result += known.get(name, f"$({name})")
            at = end + 1
        else:
            result += text[at : at + 2]
            at += 2
    return result


def started(job_set: dict[str, Any], role: str, index: int) -> tuple[list[str], dict[str, str]]:
    """Words and variables of a replica's process."""
    group = next(each for each in job_set["spec"]["replicatedJobs"] if each["name"] == role)
    (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
    first, deadline, *rest = container["env"]
    assert first["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")
    assert deadline["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['encamp-deadline']"
    variables = {first["name"]: str(index)}
    for each in rest:
        variables[each["name"]] = expand(each["value"], variables)
    words = [*container.get("command", []), *container.get("args", [])]
    return [expand(word, variables) for word in words], variables
