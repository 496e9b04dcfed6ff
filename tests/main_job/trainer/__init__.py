"""A trainer that does what it is told, for tests of how jobs end."""
