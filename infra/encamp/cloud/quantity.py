"""Kubernetes' resource quantities (``500m``, ``16Gi``, ``1e3``) as exact numbers.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|([a-zA-Z]*))")


def parse(text: str | float) -> Fraction:
    """Return the number that a quantity stands for: cores, bytes or pieces.

    Raises:
        ValueError: it is no quantity.
    """
    found = _FORM.fullmatch(str(text).strip())
    if found is None or (found[3] or "") not in _SUFFIXES:
        raise ValueError(f"{text!r} is no quantity")
    exponent = Fraction(10) ** int(found[2][1:]) if found[2] else Fraction(1)
    return Fraction(found[1]) * exponent * _SUFFIXES[found[3] or ""]


def in_units(text: str | float, divisor: str | float | None) -> int:
    """Return a quantity in units of ``divisor``, rounded up, as resourceFieldRef gives it."""
    unit = parse(divisor) if divisor not in (None, "", "0", 0) else Fraction(1)
    return math.ceil(parse(text) / unit)
