"""What a change of the repository does to stacks: which ones it touches, what the engine would do, what it costs.

The room reads: the repository, the engine's state, the cloud through a preview. It changes nothing, so that whoever
runs it needs rights to look and no more. What it finds is plain data, and one module makes a comment of it.
"""
