"""Who may do what: roles of AI Platform as roles of Google Cloud and Kubernetes, and the identity of a job."""
