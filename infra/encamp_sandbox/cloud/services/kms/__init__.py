"""Cloud KMS (v1): key rings and keys, which are never deleted, and the permission to use them."""
