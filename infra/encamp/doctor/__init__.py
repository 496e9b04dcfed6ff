"""Looks at what a stack needs before anything of it is made; nothing is changed, and every problem is told at once."""
