"""Acceptance: a ladder of small jobs on a real project that shows, belief by belief, what Google does.

Owns the ladder, its cost, the probes of beliefs, and the report. Jobs are driven, reaped and accounted by ``run``;
environments are brought up by the engine's stacks. Refuses to take down what it did not bring up.
"""
