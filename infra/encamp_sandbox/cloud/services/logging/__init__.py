"""Cloud Logging (v2): entries, metrics of entries, sinks, exclusions."""
