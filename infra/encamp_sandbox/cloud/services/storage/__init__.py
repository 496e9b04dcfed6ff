"""Cloud Storage (v1): checks of a call by IAM and the API's rules; the storage server has buckets and objects."""
