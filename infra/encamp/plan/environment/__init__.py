"""The long-lived resources of an environment: network, cluster, buckets, queues, monitoring, drivers and reaper."""
