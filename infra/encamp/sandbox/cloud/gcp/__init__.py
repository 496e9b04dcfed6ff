"""The sandbox's ``gcp`` provider: Pulumi's type tokens on one side, the cloud's store on the other.

Each type is a declaration (``*_types.py``): what is required, what can't be changed, which names are right, what
has to exist, each rule with its public source. ``session.py`` does with a declaration what the engine asks.
"""
