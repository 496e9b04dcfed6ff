"""Kubernetes manifests of a job: typed views of the plan, and templates that decide nothing."""
