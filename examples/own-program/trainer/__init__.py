"""Wines and their growers."""
