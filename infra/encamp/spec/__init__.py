"""Job files, environments and stack configs as users write them, and every rule they must keep.

Owns the models, the safe reading of files and the rules V01-V23 and H01-H11 of AI Platform's job model. Decides nothing
(that is ``encamp.plan``) and asks nobody: no network, no clock, no cloud. Every mistake of a file is reported at once.
"""
