"""Beliefs about Google Cloud: each rule that encamp or its sandbox takes for Google's, with its source.

Owns the table (``table/<area>.json``), its model and its page in the documentation. Code that relies on a belief names
it by its id, so that a wrong one leads to every place that it was used. Refuses entries without a source, a date or a
confidence.
"""
