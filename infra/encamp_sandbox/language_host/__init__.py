"""A ``pulumi-language-python``: the plugin by which the Pulumi engine runs a Python program.

The official host is in no package registry. This one serves the same protocol (``proto/pulumi/language.proto`` of
the engine) with what the SDK brings, for programs whose dependencies are installed already and whose providers are
attached. It refuses what it has no use for: generating code, packing packages, running plugins.
"""
