"""Checks of a stack's prerequisites before anything of it is made.

Nothing is changed, every problem is told at once.
"""
