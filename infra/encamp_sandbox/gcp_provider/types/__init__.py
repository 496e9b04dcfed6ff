"""The types of the provider, a module for each service."""
