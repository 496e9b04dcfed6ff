"""Fixtures of this folder's tests."""

from tests.api.jobs.service import http, sent, service, standing

__all__ = ["http", "sent", "service", "standing"]
