"""Probes of beliefs, a module an area; see ``acceptance.probe``."""
