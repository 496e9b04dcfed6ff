"""Artifact Registry (v1): repositories and who may read and write them."""
