"""Access: AI Platform's roles as roles of Google Cloud and Kubernetes, and the identity of a job."""
