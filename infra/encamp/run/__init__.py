"""The life of a job outside the engine's program: bring up, watch, seal, take down, account for, and reap.

Owns the records, the one way to the engine (Automation API) and every promise about endings. Decides nothing about
machines or manifests: that is the plan's. Knows the clouds only through ``encamp.cloud``, and no sandbox at all.
"""
