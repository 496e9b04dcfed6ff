"""The plan of a job or an environment: every decision, made before anything exists.

Pure: a job and an environment in, plain frozen data out. No network, no clock, no engine; the same input gives the same
plan, to the byte. Components and templates only carry out what stands in a plan.
"""
