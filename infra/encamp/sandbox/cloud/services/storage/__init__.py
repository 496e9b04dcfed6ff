"""Cloud Storage (v1): what IAM and the API's rules say of a call; buckets and objects are the storage server's."""
