"""The user behind a local connection, and listeners that accept connections of one user alone.

Loopback keeps other machines out, not other users of this one. Owns the look-up and the refusal; never reads what is
sent, and knows nothing of who listens or why. See docs/decisions/0200.
"""
