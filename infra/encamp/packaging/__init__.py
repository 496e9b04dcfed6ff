"""Packages of this machine: the local files of a job that pip installs in its replicas.

Reads trainer folders, packs or builds them, checks given archives, and keeps what it made in the user's cache. The only
code of a user's that it runs is the ``setup.py`` (or build backend) beside the trainer package itself.
"""
