"""The trainer of the ladder's rungs: it trains nothing, looks around inside its pod, and ends when it is told to."""
