"""The kubelet of every node of the sandbox, in one process, and the autoscaler that makes and unmakes those nodes.

It runs pods as processes of this machine. Towards the API server it behaves as kubelets do (statuses, restarts,
deletion, logs), so that the real controllers above it notice nothing. Containers have the host's programs: an image
is a name, never pulled, and its own ENTRYPOINT is unknown. Accelerators are simulated and said to be.
"""
