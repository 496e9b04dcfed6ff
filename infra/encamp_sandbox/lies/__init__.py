"""Lies: switches by which the sandbox does otherwise than a belief about Google says.

They show that a probe of ``encamp acceptance`` would notice. A lie is told at the edge: in the request or the answer of
a REST call, in an object as the Kubernetes API server answers it, or in what a pod sees. Without a switch nothing of
this is in the way.
"""
