"""What lives long: network, cluster, buckets, queues, monitoring, drivers and reaper of an environment."""
