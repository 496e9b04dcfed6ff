"""Kinds of resources that a job may have: each is declared once, and every list of kinds is derived from here.

``objects`` has the Kubernetes objects, ``google`` the resources of Google Cloud. A declaration says the kind's type,
how its resources are found again, which permissions they take, and by its place in what order they are deleted. Data
only: ``cloud/listings.py`` and ``cloud/leftovers.py`` have the requests that list and delete them.
"""
