"""The cost of a job, or of an environment without jobs, before it is spent."""
