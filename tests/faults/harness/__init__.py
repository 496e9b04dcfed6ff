"""Kills what a run is made of, at every step that a run was seen to take, and asks the cloud what is left.

- ``steps``: the list of steps, noted from a run that nothing disturbs.
- ``cases``: what is done to the job of a seed: who is killed at which step, or which answer goes wrong.
- ``trial``: one job with what is done to it, from its start to a clean cloud.
- ``judging``: which outcome is right, whether a log is lost.
- ``listing`` and ``foreign``: what the cloud lists of a job, and the look-alikes of another owner beside it.
"""
