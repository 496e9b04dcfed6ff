"""What a job costs, or an environment without jobs, before it is spent."""
