"""The values of plain YAML scalars.

YAML 1.1 as the clients of AI Platform read it, without its worst surprises: sexagesimal numbers and dates stay text.
The written form is kept beside the value, so that a message can say which quotes are missing.
"""

from __future__ import annotations

import re

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_OCTAL = re.compile(r"[-+]?0o?[0-7_]+")
_HEXADECIMAL = re.compile(r"[-+]?0x[0-9a-fA-F_]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})

#: Longer digit strings stay text: no field takes them, and converting them costs quadratic time.
_LONGEST_NUMBER = 64


def plain_value(text: str) -> str | bool | int | float | None:
    """Return the value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) > _LONGEST_NUMBER:
        return text
    return _number(text)


def _number(text: str) -> str | int | float:
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(text):
        return int(digits)
    if _OCTAL.fullmatch(text):
        return int(digits.replace("o", ""), 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(digits, 16)
    if _FLOAT.fullmatch(text):
        return float(digits)
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return float(f"{infinite[1]}inf")
    return float("nan") if text in _NOT_A_NUMBER else text
