"""Connections that leave the sandbox: which destinations pods may reach, and the CONNECT proxy that takes them there.

A pod's network has no way out of its own. What it reaches is Google's hosts, which are the sandbox here, and package
indexes and other public hosts, as a pod of GKE does; never this machine nor what only this machine reaches.
"""
