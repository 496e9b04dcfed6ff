"""Python environments of the sandbox that stand for images: what the image has, and no more.

Containers of the sandbox are processes, so a replica's Python is one of this machine. Two kinds stand for an image that
tables know: its own packages with its own Python, made by uv when a user asks for it (``pulled.py``), and a view of the
sandbox's own Python that shows only distributions of the image (``view.py``). Both lie in the user's cache.
"""
