"""Encrypted values of a stack, replaced by placeholders, so that a preview needs no key.

The engine opens a state with the stack's key, whatever it is asked (measured with 3.259.0: ``pulumi preview`` fails
without it, ``pulumi stack export`` and ``pulumi stack output`` do not need it). An export holds encrypted values as
ciphertexts. Here each becomes a secret again, with a placeholder as its value; a backend of the runner's own encrypts
it with an empty passphrase. Inputs that are encrypted in the state are listed, and the program leaves them uncompared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from encamp.ci.hidden_outputs import NOTES, SIGNATURE, HiddenOutputs
from encamp.ci.touched import is_secret
from encamp.property_paths import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.property_paths import Path

#: Stands for every value that is encrypted in a state or in a stack's config.
PLACEHOLDER = "(encrypted, not read)"
#: Key of a program's config: inputs that are not compared, see ``components/uncompared.py``.
NOT_COMPARED = "encamp:notCompared"
#: The value of ``SIGNATURE`` that marks a secret.
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a type's signature
_PROVIDERS = "pulumi:providers:"
_UNKNOWN: Final = object()


def with_placeholders(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deployment as it can be imported into a stack that has another key; operations in flight are left out.

    Args:
        deployment: of ``pulumi stack export``.
    """
    hidden = HiddenOutputs(deployment)
    resources = [_readable(one, hidden) for one in deployment.get("resources") or []]
    kept = {key: value for key, value in deployment.items() if key not in ("secrets_providers", "pending_operations")}
    return {**kept, "resources": resources}


def encrypted_inputs(deployment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every resource with encrypted inputs: its ``type``, its ``name`` and the ``paths`` of these inputs."""
    found = []
    for one in deployment.get("resources") or []:
        paths = [path_text(keys) for keys in _secrets(one.get("inputs") or {})]
        if paths and not one["type"].startswith(_PROVIDERS):
            found.append({"type": one["type"], "name": one["urn"].rpartition("::")[2], "paths": paths})
    return found


def readable_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a stack's config without its encrypted values, and the paths where they stood.

    A key that is encrypted as a whole is left out.
    """
    whole = {key for key, value in config.items() if is_secret(value)}
    kept = {key: value for key, value in config.items() if key not in whole}
    paths = [_config_path(key, keys) for key, value in kept.items() for keys in _secure(value)]
    return {key: _without_secure(value) for key, value in kept.items()}, paths


def _config_path(key: str, keys: Path) -> str:
    namespace, _, name = key.partition(":")
    return f"{namespace}:{path_text((name, *keys))}"


def _is_ciphertext(value: Any) -> bool:
    return isinstance(value, dict) and value.get(SIGNATURE) == _SECRET


def _secrets(value: Any, at: Path = ()) -> Iterator[Path]:
    if _is_ciphertext(value):
        yield at
    else:
        for key, item in _items(value):
            yield from _secrets(item, (*at, key))


def _secure(value: Any, at: Path = ()) -> Iterator[Path]:
    if is_secret(value):
        yield at
    else:
        for key, item in _items(value):
            yield from _secure(item, (*at, key))


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _without_secure(value: Any) -> Any:
    if is_secret(value):
        return PLACEHOLDER
    if isinstance(value, dict):
        return {key: _without_secure(item) for key, item in value.items()}
    return [_without_secure(item) for item in value] if isinstance(value, list) else value


def _readable(resource: Mapping[str, Any], hidden: HiddenOutputs) -> dict[str, Any]:
    inputs, outputs = resource.get("inputs"), resource.get("outputs")
    made = dict(resource)
    if inputs is not None:
        made["inputs"] = _replaced(inputs)
    if outputs is not None:
        notes = _without_ciphertexts({NOTES: outputs[NOTES]}) if NOTES in outputs else {}
        others = {key: value for key, value in outputs.items() if key != NOTES}
        made["outputs"] = _replaced(others, {**hidden.of(resource), **(inputs or {})}) | notes
    return made


def _without_ciphertexts(value: Any) -> Any:
    """Return notes without those that are encrypted; what they are about is then taken as it stands."""
    if not isinstance(value, dict):
        return value
    return {key: _without_ciphertexts(item) for key, item in value.items() if not _is_ciphertext(item)}


def _replaced(value: Any, known: Any = _UNKNOWN) -> Any:
    """Return a value with placeholders.

    An encrypted output that ``known`` holds in plain takes that, and keeps its shape.
    """
    if _is_ciphertext(value):
        plain = PLACEHOLDER if known is _UNKNOWN or any(True for _ in _secrets(known)) else known
        return {SIGNATURE: _SECRET, "plaintext": json.dumps(plain)}
    if isinstance(value, dict):
        beneath = known if isinstance(known, dict) else {}
        return {key: _replaced(item, beneath.get(key, _UNKNOWN)) for key, item in value.items()}
    if isinstance(value, list):
        items = known if isinstance(known, list) and len(known) == len(value) else [_UNKNOWN] * len(value)
        return [_replaced(item, one) for item, one in zip(value, items, strict=True)]
    return value
