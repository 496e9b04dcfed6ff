"""Cloud KMS (v1): key rings and keys, which are never deleted, and what may use them."""
