"""Replicas' output on its way: from the cluster to the local disk, and from there to the bucket."""
