"""Machines of a job: what there is, what a replica gets of one, which pools hold them, and what Google would refuse."""
