"""The sandbox's Google Cloud: one store, and two ways to it.

The ``gcp`` provider (gRPC, for the Pulumi engine) and the REST front (for everybody else) read and write the same
store, so what one makes the other shows. Objects and buckets are the storage server's (``sandbox/storage``).
"""
