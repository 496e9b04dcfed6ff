"""The effects of a repository's change on stacks: those that it touches, the engine's preview, the cost.

The room reads: the repository, the engine's state, the cloud through a preview. It changes nothing, so that whoever
runs it needs rights to look and no more. What it finds is plain data, and one module makes a comment of it.
"""
