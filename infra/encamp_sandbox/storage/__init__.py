"""The sandbox's Cloud Storage: a JSON API server over plain files and one SQLite file.

It knows objects and buckets and no users: who may do what is the front's business (``sandbox/cloud``),
which is the only one that has this server's token.
"""
