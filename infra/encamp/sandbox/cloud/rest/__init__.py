"""What Google's APIs have in common: collections of named resources, rules, partial changes, operations, policies.

A service (``sandbox/cloud/services/``) declares its collections with these parts; ``Api`` answers its calls.
"""
