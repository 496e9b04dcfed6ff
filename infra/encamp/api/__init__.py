"""The projects.jobs service: jobs over HTTP as AI Platform spoke it, on top of ``run``."""
