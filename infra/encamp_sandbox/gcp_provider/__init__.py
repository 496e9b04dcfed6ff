"""The sandbox's own ``gcp`` provider: a client of the sandbox's Google Cloud, on the type tokens of the official one.

What each type has, what the server computes, what replaces, what is secret and what inputs are refused stands in
``schema/``, taken from the official provider. A type (``types/``) adds how its inputs become the body of a request and
an answer its outputs, and which requests make, change and delete it. The room owns no state and decides nothing that
Google's API decides.
"""
