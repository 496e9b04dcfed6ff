"""Configuration by the owner of this machine: package indexes, by pip's variables and files, and a proxy.

A job says nothing here: what it sets in its own environment is not looked at. Places of pip's files:
pip.pypa.io/en/stable/topics/configuration.
"""

from __future__ import annotations

import configparser
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_KEYS: Final = ("index-url", "extra-index-url", "find-links")
_SECTIONS: Final = ("global", "install")
_PORTS: Final = {"http": 80, "https": 443}
#: The variable that names the sandbox's own proxy, by which it is told from the owner's, which the other one keeps.
OWN_PROXY: Final = "ENCAMP_SANDBOX_PROXY"
OWNER_PROXY: Final = "ENCAMP_SANDBOX_OWNERS_PROXY"
#: Indexes of pip's defaults. Inside an organisation these names may lead to a mirror.
_USUAL: Final = frozenset({("pypi.org", 443), ("files.pythonhosted.org", 443)})


@dataclass(frozen=True)
class OwnerIndexes:
    """Host and port of each.

    Attributes:
        named: indexes that the owner configured; they may lie anywhere, this machine included.
        usual: indexes that pip asks by itself; they may lie at private addresses, but not on this machine.
    """

    named: frozenset[tuple[str, int]] = frozenset()
    usual: frozenset[tuple[str, int]] = _USUAL


def owner_indexes(variables: Mapping[str, str]) -> OwnerIndexes:
    """Read them from pip's environment variables and from its files."""
    texts = [variables.get(f"PIP_{key.upper().replace('-', '_')}", "") for key in _KEYS]
    texts += [text for file in _files(variables) for text in _configured(file)]
    return OwnerIndexes(frozenset(_places(word for text in texts for word in text.split())))


def pip_setting(variables: Mapping[str, str], key: str) -> str:
    """Return a setting of pip, such as ``index-url``, from its variables or files; empty if nobody set it."""
    if given := variables.get(f"PIP_{key.upper().replace('-', '_')}"):
        return given
    # pip reads the more particular files later, and they win.
    return next((text for file in reversed(_files(variables)) for text in _of_key(file, key) if text), "")


def _places(words: Iterable[str]) -> Iterator[tuple[str, int]]:
    for word in words:
        try:
            place = urlsplit(word)
            port = place.port or _PORTS.get(place.scheme)
        except ValueError:
            continue
        if place.hostname and port:
            yield place.hostname.rstrip("."), port


def _files(variables: Mapping[str, str]) -> list[Path]:
    home = Path(variables.get("HOME") or "/")
    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    shared = (variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return [
        *(Path(folder) / "pip" / "pip.conf" for folder in shared),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        config / "pip" / "pip.conf",
        home / "Library" / "Application Support" / "pip" / "pip.conf",
        Path(sys.prefix) / "pip.conf",
        *([Path(variables["PIP_CONFIG_FILE"])] if variables.get("PIP_CONFIG_FILE") else []),
    ]


def _configured(file: Path) -> Iterator[str]:
    for key in _KEYS:
        yield from _of_key(file, key)


def _of_key(file: Path, key: str) -> Iterator[str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return
    for section in _SECTIONS:
        yield parser.get(section, key, fallback="")


def owner_proxy(variables: Mapping[str, str]) -> str:
    """Return the URL of the proxy that the owner reaches the web through; empty without one."""
    given = variables.get("https_proxy") or variables.get("HTTPS_PROXY") or ""
    return variables.get(OWNER_PROXY, "") if given == variables.get(OWN_PROXY) else given
