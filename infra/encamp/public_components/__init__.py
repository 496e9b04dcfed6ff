"""The Pulumi components that other programs declare: ``encamp.Environment`` and ``encamp.TrainingJob``.

The room turns what another program writes into plans and hands them to ``components/``; ``program.py`` does the same
for the config of encamp's own stacks. Import the names from ``encamp``: where they lie in here may change.
"""
