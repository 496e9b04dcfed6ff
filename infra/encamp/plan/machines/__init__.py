"""Machines of a job: the catalog, a replica's share of one, the pools that hold them, and Google's limits."""
