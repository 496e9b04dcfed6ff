"""A trainer that reports a metric and ends as it is told, for tests of studies."""
