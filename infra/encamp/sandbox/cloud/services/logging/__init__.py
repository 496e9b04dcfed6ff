"""Cloud Logging (v2): entries, metrics of entries, and sinks."""
