"""Addresses of pods: one each, and the same again for the same host name, so that peers find a restarted replica."""

from __future__ import annotations

import ipaddress


class AddressBook:
    """Gives out the addresses of one network.

    Args:
        network: such as ``10.8.0.0/16``; the first address is the gateway's.
    """

    def __init__(self, network: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self.gateway = str(self._network[1])
        self.prefix_length = self._network.prefixlen
        self._next = 2
        self._used: set[str] = set()
        self._last: dict[str, str] = {}

    def __contains__(self, address: str) -> bool:
        """Whether an address is one of the network's."""
        try:
            return ipaddress.IPv4Address(address) in self._network
        except ValueError:
            return False

    def take(self, host_key: str) -> str:
        """Return an address that nobody has: the one that ``host_key`` had last, where it is free.

        Raises:
            RuntimeError: the network is full.
        """
        address = self._last.get(host_key, "")
        if not address or address in self._used:
            address = self._free()
        self._used.add(address)
        self._last[host_key] = address
        return address

    def give_back(self, address: str) -> None:
        """Free an address."""
        self._used.discard(address)

    def _free(self) -> str:
        size = self._network.num_addresses - 3
        remembered = set(self._last.values())
        for avoid in (self._used | remembered, self._used):
            for step in range(size):
                index = 2 + (self._next - 2 + step) % size
                address = str(self._network[index])
                if address not in avoid:
                    self._next = index + 1
                    return address
            self._last.clear()  # every address was remembered for somebody: forget who had which
        raise RuntimeError(f"no address is left in {self._network}")
