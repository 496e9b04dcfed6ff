"""A Google Cloud of this machine's own: real control plane, our providers, kubelet and storage, all on loopback.

Nobody but ``cli`` imports this room: programs reach the sandbox as they reach Google, over its ports.
"""
