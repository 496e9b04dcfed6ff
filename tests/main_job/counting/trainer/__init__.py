"""A trainer that counts, and goes on counting where it was when it ended."""
