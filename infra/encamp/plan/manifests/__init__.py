"""What of a job Kubernetes is given: typed views of the plan, in templates that decide nothing."""
