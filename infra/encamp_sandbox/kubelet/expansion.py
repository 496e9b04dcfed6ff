"""Kubernetes' expansion of ``$(VAR)`` in env values, commands and arguments.

Source: k8s.io/kubernetes/third_party/forked/golang/expansion/expand.go: ``$$`` is an escaped ``$``, so ``$$(VAR)``
gives ``$(VAR)``; a reference to an unknown variable stays as it is; any other ``$`` stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace every reference to a known variable, once: values are not expanded again."""
    out: list[str] = []
    at = 0
    while (dollar := text.find("$", at)) >= 0 and dollar + 1 < len(text):
        out.append(text[at:dollar])
        follows = text[dollar + 1]
        end = text.find(")", dollar + 2) if follows == "(" else -1
        if end >= 0:
            name = text[dollar + 2 : end]
            out.append(variables.get(name, f"$({name})"))
            at = end + 1
        else:
            out.append("$" if follows == "$" else f"${follows}")
            at = dollar + 2
    return "".join(out) + text[at:]


def expand_all(texts: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """Expand each of the words of a command."""
    return [expand(text, variables) for text in texts]
