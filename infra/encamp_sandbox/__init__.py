"""A Google Cloud of this machine's own: real control plane, our providers, kubelet and storage, all on loopback.

Only ``encamp.sandbox`` imports this package: programs reach the sandbox as they reach Google, over its ports.
"""
