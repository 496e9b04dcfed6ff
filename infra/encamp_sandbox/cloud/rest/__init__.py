"""The common parts of Google's APIs: collections of named resources, rules, partial updates, operations, policies.

A service (``sandbox/cloud/services/``) declares its collections with these parts; ``Api`` answers its calls.
"""
