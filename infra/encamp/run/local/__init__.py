"""A job on this machine: every replica a process here, started at once, watched, and ended with all that it started.

Plain data in (``LocalReplica``), an exit code out. It asks no cloud for anything, makes nothing that outlives it but
the job dir and the logs it was asked to keep, and knows no framework.
"""
