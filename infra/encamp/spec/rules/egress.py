"""Rules of where replicas may connect to: E24."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

#: A network policy grows with each.
_MOST = 20


def check_egress(case: Case) -> None:
    """Check E24: networks of IPv4 addresses, each once."""
    asked = case.job.encamp.egress or ()
    if len(asked) > _MOST:
        message = f"names {len(asked)} networks; {_MOST} are allowed"
        case.problem("E24", ("encamp", "egress"), message, "name a larger network that holds them")
        return
    seen: set[ipaddress.IPv4Network] = set()
    for index, text in enumerate(asked):
        path = ("encamp", "egress", index)
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError:
            message = f"{text[:60]!r} must be a network of IPv4 addresses"
            case.problem("E24", path, message, "such as 10.4.0.0/16, or 10.4.0.7/32 for one address")
            continue
        if network in seen:
            case.problem("E24", path, f"{network} is named already", "remove one of the two")
        seen.add(network)
