"""The IAM API (v1) and the Service Account Credentials API (v1): service accounts, custom roles, tokens."""
