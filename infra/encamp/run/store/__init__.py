"""The record of jobs: the journal of each, submissions, leases, and the data that is written there."""
