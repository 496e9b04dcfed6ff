"""Compute Engine (v1 and beta), as far as environments and jobs have anything there.

Networks, subnetworks, routers with their address translation, resource policies; and, to be read only, the project,
regions, zones and the instance groups of node pools.
"""
