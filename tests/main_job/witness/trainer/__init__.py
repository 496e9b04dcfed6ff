"""A trainer that tells what it was given."""
